"""The same transforms, and a fold, on Spark Connect: there is no `sparkContext` and no RDD there."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partition
from eos_assets.local.ports import ReservedPort
from eos_assets.local.spark_server import SparkConnectServer
from eos_assets.platform.project import project_root
from eos_assets.platform.settings import Settings
from eos_assets_tests.cli.command import EOS
from eos_assets_tests.short_lived import QUICKLY_COMPILED
from eos_assets_tests.waiting import wait_for

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnectServer]:
    port = ReservedPort()
    folder = tmp_path_factory.mktemp("spark")
    server = SparkConnectServer(folder, port=port.number, settings=settings, env=QUICKLY_COMPILED)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        port.release()


@pytest.fixture
def environ(server: SparkConnectServer, connection: Connection) -> dict[str, str]:
    return {**os.environ, "EOS_SPARK": server.address, "EOS_BOOTSTRAP_SERVERS": connection.bootstrap_servers}


@pytest.mark.timeout(900)
def test_transforms_work_alike_on_spark_connect(environ: dict[str, str]) -> None:
    """In a process of its own: one holds either a classic session or one of Connect."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "connect",
        str(TESTS),
        "--ignore",
        str(TESTS / "scenarios"),
    ]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=850)
    assert run.returncode == 0, run.stdout


MODULE = """
from pyspark.sql import DataFrame, functions as f
from pyspark.sql.types import StringType

from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic


def loud(text):
    return text.upper()


@f.udf(StringType())
def shouted(value):
    return loud(bytes(value).decode())


@pipeline(source=Topic("{name}-in", partitions=1), sink=Topic("{name}-out", partitions=1))
def {name}(records: DataFrame) -> DataFrame:
    return records.select("key", shouted("value").alias("value"), "origin")
"""


def test_functions_of_a_users_module_run_there_although_the_server_does_not_have_it(
    environ: dict[str, str], connection: Connection, tmp_path: Path
) -> None:
    """The module declares them before there is a session."""
    name = f"m{uuid.uuid4().hex[:10]}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name=name))
    environ["PYTHONPATH"] = str(tmp_path)

    def eos(*words: str) -> None:
        command = [sys.executable, "-m", "eos_assets.cli", *words, "--module", name]
        run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stdout + run.stderr

    eos("topics", "create", "--pipeline", name)
    producer = Producer(connection.config())
    producer.produce(f"{name}-in", b"hello", b"1")
    producer.flush()
    eos("run", name)
    eos("verify", name)
    (message,) = read_partition(connection, f"{name}-out", 0)
    assert message.value() == b"HELLO"


SLOW_MODULE = """
import time
from pathlib import Path

from pyspark.sql import DataFrame, functions as f
from pyspark.sql.types import StringType

from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic


@f.udf(StringType())
def shouted(value):
    if not Path("{folder}/open").exists():
        Path("{folder}/started").touch()
        time.sleep(0.05)
    return bytes(value).decode().upper()


@pipeline(source=Topic("{name}-in", partitions=1), sink=Topic("{name}-out", partitions=1))
def {name}(records: DataFrame) -> DataFrame:
    return records.select("key", shouted("value").alias("value"), "origin")
"""


@pytest.mark.timeout(300)
def test_a_killed_client_and_a_killed_server_leave_each_record_once(
    server: SparkConnectServer, environ: dict[str, str], connection: Connection, tmp_path: Path
) -> None:
    """F22: the server still runs the job of the killed client when the next run starts. A run whose server was killed
    and started again ends in seconds, and says so."""
    name = f"m{uuid.uuid4().hex[:10]}"
    (tmp_path / f"{name}.py").write_text(SLOW_MODULE.format(name=name, folder=tmp_path))
    environ["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(project_root(Path(__file__).parent))])
    started, gate = tmp_path / "started", tmp_path / "open"

    def command(*words: str) -> list[str]:
        return [*EOS, *words, "--module", name]

    def produce(first: int) -> None:
        producer = Producer(connection.config())
        for number in range(first, first + 400):
            producer.produce(f"{name}-in", b"a%d" % number, b"%d" % number, 0)
        producer.flush()

    def run_and_verify(count: int) -> None:
        for words in (("run", name), ("verify", name)):
            ended = subprocess.run(command(*words), env=environ, capture_output=True, text=True, timeout=200)
            assert ended.returncode == 0, ended.stdout + ended.stderr
        values = [message.value() for message in read_partition(connection, f"{name}-out", 0)]
        assert values == [b"A%d" % number for number in range(count)]

    subprocess.run(command("topics", "create", "--pipeline", name), env=environ, check=True)
    produce(0)
    with subprocess.Popen(command("run", name), env=environ, stderr=subprocess.DEVNULL) as client:
        wait_for(started.exists)
        client.kill()
    assert client.returncode == -signal.SIGKILL
    gate.touch()
    run_and_verify(400)

    gate.unlink()
    started.unlink()
    produce(400)
    with subprocess.Popen(command("run", name), env=environ, stderr=subprocess.PIPE, text=True) as cut_off:
        wait_for(started.exists)
        assert server.process
        server.process.kill()
        killed = time.monotonic()
        gate.touch()
        server.start()
        _, message = cut_off.communicate(timeout=100)
        assert time.monotonic() - killed < 60
    assert cut_off.returncode == 1, message
    assert "Spark Connect server" in message
    assert "Traceback" not in message
    run_and_verify(800)
