"""The same transforms, and a fold, on Spark Connect: there is no `sparkContext` and no RDD there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eos_assets.kafka.connection import Connection
from eos_assets.local.ports import ReservedPort
from eos_assets.local.spark_server import SparkConnectServer
from eos_assets.settings import Settings

#: What runs there once more, with a session of its own: a process holds either a classic one or one of Connect.
AGAIN = ("test_transforms.py", "test_state.py::test_a_snapshot_and_the_tail_are_the_state_and_losing_it_loses_nothing")


@pytest.mark.timeout(900)
def test_every_transform_works_alike_on_spark_connect(
    settings: Settings, connection: Connection, tmp_path: Path
) -> None:
    port = ReservedPort()
    server = SparkConnectServer(tmp_path, port=port.number, settings=settings)
    server.start()
    try:
        env = {**os.environ, "EOS_SPARK": server.address, "EOS_BOOTSTRAP_SERVERS": connection.bootstrap_servers}
        tests = [str(Path(__file__).parent / name) for name in AGAIN]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=800)
        assert run.returncode == 0, run.stdout
    finally:
        server.stop()
        port.release()
