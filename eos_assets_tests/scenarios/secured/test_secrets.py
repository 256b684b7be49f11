"""A canary password: after runs, proofs, tables and materializations it is in no log, event, table and process list."""

import logging
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from eos_assets.errors import EosError
from eos_assets.experiment.fill import fill
from eos_assets.local.ports import ReservedPort
from eos_assets.local.spark_server import SparkConnectServer
from eos_assets.pipelines.squares import squares
from eos_assets.platform import spark_session
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.permissions import creation, permissions
from eos_assets_tests.cli.command import EOS
from eos_assets_tests.scenarios.secured.conftest import CANARY, USER, Guarded

WORD = CANARY.partition("-")[0]
#: On top of the project's own configuration: Spark says all it can about its readers, plans and clients.
TALKATIVE = """
logger.kafka.name = org.apache.spark.sql.kafka010
logger.kafka.level = trace
logger.connect.name = org.apache.spark.sql.connect
logger.connect.level = trace
logger.execution.name = org.apache.spark.sql.execution
logger.execution.level = debug
"""
#: A materialization with all its checks, in a Dagster instance on disk, its plan printed at full length.
MATERIALIZE = """
import dagster as dg, sys
from eos_assets.definitions import defs
from eos_assets.orchestration.partitions import add_missing
from eos_assets.log.ranges import OffsetRange
from eos_assets.transform.source import read_records
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.spark import SparkResource

connection = KafkaResource().connection()
read = read_records(SparkResource().spark_session, connection, "datasource", [OffsetRange(0, 0, 10)])
read.explain("extended")
read.explain("formatted")
print(connection, read)
instance = dg.DagsterInstance.get()
add_missing(instance, "datasource", connection)
tags = {"dagster/asset_partition_range_start": "0", "dagster/asset_partition_range_end": "2"}
result = defs.resolve_job_def("squares_job").execute_in_process(instance=instance, tags=tags, raise_on_error=False)
assert all(check.passed for check in result.get_asset_check_evaluations())
print("checks:", len(result.get_asset_check_evaluations()))
sys.exit(not result.success)
"""


class Lookout:
    """Reads the command line of every process, again and again, and keeps those with the word."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.looks = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._done.wait(0.05):
            self.looks += 1
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                if WORD in line:
                    self.seen.add(line)

    def __enter__(self) -> "Lookout":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


@contextmanager
def talkative_connect(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkConnectServer]:
    config = folder / "talkative.properties"
    ours = spark_session.LOG4J.read_text().replace("rootLogger.level = error", "rootLogger.level = info")
    config.write_text(ours.replace("level = off", "level = debug") + TALKATIVE)
    monkeypatch.setattr(spark_session, "LOG4J", config)
    port = ReservedPort()
    server = SparkConnectServer(folder / "spark", port=port.number, settings=Settings.load())
    server.start()
    try:
        yield server
    finally:
        server.stop()
        port.release()


@pytest.mark.timeout(600)
def test_a_password_is_left_behind_nowhere(
    guarded: Guarded, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F25."""
    for permission in (*permissions(squares), *creation(squares)):
        guarded.allow(permission)
    authority = tmp_path / "ca.pem"
    authority.write_text(guarded.user.security.authority)
    environment = {
        "EOS_HOME": str(tmp_path / "home"),
        "EOS_BOOTSTRAP_SERVERS": guarded.user.bootstrap_servers,
        "EOS_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "EOS_KAFKA_USERNAME": USER,
        "EOS_KAFKA_PASSWORD": CANARY,
        "EOS_KAFKA_CA_FILE": str(authority),
        "DAGSTER_HOME": str(tmp_path / "dagster"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "dagster").mkdir()
    said = tmp_path / "said.txt"
    with Lookout() as lookout, talkative_connect(tmp_path, monkeypatch) as server, said.open("wb") as out:
        monkeypatch.setenv("EOS_SPARK", server.address)

        def run(*command: str, status: int = 0) -> None:
            code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=300).returncode
            assert code == status, said.read_text()

        run(*EOS, "topics", "create", "--pipeline", "squares")
        fill(guarded.admin, "datasource", 300)
        run(EOS[0], "-c", MATERIALIZE)
        for command in (["settings"], ["doctor"], ["plan", "squares"]):
            run(*EOS, *command, status=0)
        monkeypatch.setenv("EOS_KAFKA_USERNAME", "nobody")
        run(*EOS, "plan", "squares", status=1)
    assert "checks: 12" in said.read_text()
    assert "rejects the credentials of User:nobody" in said.read_text()
    assert lookout.looks > 10
    assert lookout.seen == set()
    log = server.log.read_text(errors="replace")
    assert "ConsumerConfig values" in log, "the log is talkative"
    assert "DEBUG" in log
    found = [path for path in everything(tmp_path, guarded.cluster.folder) if WORD.encode() in path.read_bytes()]
    assert found == []


def everything(*folders: Path) -> list[Path]:
    """Every file that was left: logs, tables, the instance's events, the brokers' data."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".parquet" for path in files)
    assert any(path.suffix == ".db" for path in files)
    return files


def test_what_a_failing_connection_logs_has_no_password(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = replace(guarded.user, security=replace(guarded.user.security, username="nobody"))
    with pytest.raises(EosError) as error:
        wrong.metadata()
    told = f"{error.value}{error.value!r}{caplog.text}{capfd.readouterr()}"
    assert WORD not in told
