"""The disk of a broker is full in the middle of a transaction, and each record is there once after space was freed."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eos_assets.experiment.faults import Faults
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.scenarios.brokers.conftest import QUICK
from eos_assets_tests.scenarios.brokers.test_broker_faults import assert_exact, make_lab, resume
from eos_assets_tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

COUNT = 20_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for the data of a broker, where this user may mount one."""
    disk = tmp_path / "kafka" / "broker-1" / "data"
    disk.mkdir(parents=True)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", disk], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mount.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def fill_disk(file: Path) -> None:
    """Write until no space is left."""
    with file.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(64 << 10))
    assert shutil.disk_usage(file).free == 0


def test_a_full_disk_loses_and_doubles_nothing(
    spark: SparkSession, settings: Settings, small_disk: Path, tmp_path: Path
) -> None:
    """F23: a broker that cannot write ends. The run goes on when it is back with some space."""
    with KafkaCluster(tmp_path / "kafka", settings=settings, overrides=QUICK) as cluster:
        lab = make_lab(spark, cluster, "frames", timeout_ms=10_000)
        lab.fill(COUNT - 1000)
        run = Background(lab, Faults(failpoint="after_init", action="stop", pid_folder=str(tmp_path)))
        pid = await_stopped(tmp_path)
        ballast = small_disk / "ballast"
        fill_disk(ballast)
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: not cluster.nodes[0].is_running())
        assert "No space left on device" in cluster.nodes[0].log.read_text()
        ballast.unlink()
        cluster.restart(1)
        resume(run, pid)
        assert run.result().complete
        assert_exact(lab, COUNT)
