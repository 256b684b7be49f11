"""The setting that chooses where Spark runs, and how its workers start and fail."""

import os
import shlex
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eos_assets.errors import EosError
from eos_assets.local.ports import ReservedPort
from eos_assets.local.stack import Stack
from eos_assets.platform.settings import Settings
from eos_assets.platform.shipping import ship
from eos_assets.platform.spark_config import IN_PROCESS, cluster_config
from eos_assets.platform.spark_session import spark_address, start_session
from eos_assets.platform.worker_startup import PRELOADED
from eos_assets.worker import ARCHIVE
from eos_assets_tests.waiting import wait_for


@pytest.mark.parametrize(
    ("wanted", "address"),
    [
        ("", IN_PROCESS),
        ("in-process", IN_PROCESS),
        ("local[1,2]", "local[1,2]"),
        ("spark://host:7077", "spark://host:7077"),
        ("sc://host:15002", "sc://host:15002"),
    ],
)
def test_the_setting_chooses_the_address(settings: Settings, wanted: str, address: str) -> None:
    assert spark_address(settings.model_copy(update={"spark": wanted or None})) == address


def test_an_invalid_address_is_refused(settings: Settings) -> None:
    with pytest.raises(EosError, match="EOS_SPARK=sprak://host is not an address"):
        spark_address(settings.model_copy(update={"spark": "sprak://host"}))


def test_connect_without_a_server_fails_with_the_remedy(settings: Settings) -> None:
    with pytest.raises(EosError, match="Start one with `eos up`"):
        spark_address(settings.model_copy(update={"spark": "connect"}))


@pytest.mark.timeout(60)
def test_an_unreachable_server_fails_immediately_and_without_secrets(settings: Settings) -> None:
    port = ReservedPort()  # nothing listens on it
    started = time.monotonic()
    for place, reason in (
        (f"127.0.0.1:{port.number}", "Connection refused"),
        ("nowhere.invalid", "not known|resolution"),
    ):
        with pytest.raises(EosError, match=f"Spark session at sc://{place} failed to start: .*({reason})") as raised:
            start_session(settings, f"sc://{place}/;token=secret;x-key=secret")
        assert "secret" not in str(raised.value)
    assert time.monotonic() - started < 20
    port.release()


def test_a_path_with_spaces_is_one_option(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eos_assets.platform.spark_config.LOG4J", Path("/my project/log4j2"))
    options = cluster_config("local[1]", settings)["spark.driver.extraJavaOptions"]
    assert shlex.split(options) == ["-Dlog4j2.configurationFile=/my project/log4j2"]


class Artifacts:
    """A session of Spark Connect that records what is shipped to it."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def addArtifacts(self, *files: str, pyfile: bool) -> None:  # noqa: N802
        assert pyfile
        self.names += [Path(file).name for file in files]


def test_the_server_of_eos_up_receives_the_code_of_its_user_and_others_receive_ours_too(
    settings: Settings, tmp_path: Path
) -> None:
    own = settings.model_copy(update={"home": tmp_path, "py_files": (tmp_path / "mine.py",)})
    local, elsewhere, nothing = Artifacts(), Artifacts(), Artifacts()
    ship(cast(SparkSession, local), "sc://127.0.0.1:15002", own, package=False)
    ship(cast(SparkSession, elsewhere), "sc://host:15002", own)
    ship(cast(SparkSession, nothing), "sc://127.0.0.1:15002", settings, package=False)
    assert local.names == ["mine.py"]
    assert [name.split("-")[0] for name in elsewhere.names] == ["eos_assets", "mine.py"]
    assert nothing.names == []


def test_the_servers_of_eos_up_find_the_code_of_their_user_from_any_folder(settings: Settings, tmp_path: Path) -> None:
    own = settings.model_copy(update={"py_files": (tmp_path / "mine.py", tmp_path / "other.zip")})
    assert Stack(own).environment()["EOS_PY_FILES"] == f"{tmp_path}/mine.py,{tmp_path}/other.zip"


def test_a_task_whose_worker_dies_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    seen = tmp_path / "died-once"

    def die_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not seen.exists():
                seen.touch()
                os._exit(137)
            yield batch

    assert spark.range(0, 10, numPartitions=1).mapInArrow(die_once, "id long").count() == 10
    assert seen.exists()


def test_a_worker_that_spark_leaves_ends_quietly() -> None:
    """Spark's daemon alone, and a connection that is closed before the first message."""
    command = [sys.executable, "-m", "eos_assets.platform.worker_startup"]
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "secret", "SPARK_REUSE_WORKER": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as daemon:
        assert daemon.stdout is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as left:
            (pid,) = struct.unpack(">i", left.recv(4, socket.MSG_WAITALL))
        wait_for(lambda: not psutil.pid_exists(pid))
        _, errors = daemon.communicate(timeout=30)  # closes its input, which ends it
    assert errors == b""


DAEMON_WITH_A_WORKER = """
import os, signal, time
from eos_assets.platform.worker_startup import end_when_idle

signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as Spark's daemon does
if os.fork() == 0:
    time.sleep(1)
    os._exit(0)
end_when_idle(0.1)
while True:
    time.sleep(60)
"""


def test_a_daemon_ends_when_its_last_worker_has_ended_and_not_before() -> None:
    started = time.monotonic()
    run = subprocess.run([sys.executable, "-c", DAEMON_WITH_A_WORKER], timeout=30, check=False)
    assert run.returncode == 0
    assert time.monotonic() - started >= 1


def test_spark_starts_another_daemon_when_one_has_ended(spark: SparkSession) -> None:
    def parents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"parent": [os.getppid()]})

    def daemon() -> int:
        (row,) = spark.range(0, 1, numPartitions=1).mapInArrow(parents, "parent long").collect()
        return int(row.parent)

    ended = psutil.Process(daemon())
    for worker in ended.children():
        worker.kill()  # as Spark ends workers without tasks
    ended.kill()
    wait_for(lambda: not ended.is_running() or ended.status() == psutil.STATUS_ZOMBIE)
    assert daemon() != ended.pid


def test_workers_read_no_archives_before_each_task(spark: SparkSession) -> None:
    """Spark's zips and jars on a worker's path would be read again before every task."""

    def path(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"entry": sys.path})

    entries = [row.entry for row in spark.range(1).mapInArrow(path, "entry string").collect()]
    assert entries
    assert [entry for entry in entries if ARCHIVE.match(entry)] == []


def test_spark_4_2_starts_its_workers_through_our_daemon(spark: SparkSession) -> None:
    """A worker is forked from it, so the modules of a task are imported before the task."""
    assert spark.version.startswith("4.2.")

    def start(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import daemon

        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {
                    "parent": [" ".join(psutil.Process().parent().cmdline())],  # type: ignore[union-attr]
                    "wrapped": [daemon.worker.__module__],
                    "missing": [", ".join(name for name in PRELOADED if name not in sys.modules)],
                }
            )

    (row,) = spark.range(1).mapInArrow(start, "parent string, wrapped string, missing string").collect()
    assert "-m eos_assets.platform.worker_startup" in row.parent
    assert row.wrapped in ("__main__", "eos_assets.platform.worker_startup")
    assert row.missing == ""
