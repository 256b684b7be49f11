"""A canary password: after runs, proofs, tables and materializations it is in no log, event, table or process list."""

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
from eos_assets.platform import spark_config
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.permissions import creation, permissions
from eos_assets_tests.cli.command import EOS
from eos_assets_tests.scenarios.secured.conftest import CANARY, USER, Guarded

WORD = CANARY.partition("-")[0]
#: In addition to the project's configuration: Spark logs all it can about its readers, plans and clients.
VERBOSE = """
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
from eos_assets.platform.settings import Settings
from eos_assets.definitions import defs
from eos_assets.orchestration.partitions import add_new_partitions
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.transform.source import read_records
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.platform.spark_session import start_session

connection = KafkaResource().connection()
read = read_records(start_session(Settings.load()), connection, "datasource", [OffsetRange(0, 0, 10)])
read.explain("extended")
read.explain("formatted")
print(connection, read)
instance = dg.DagsterInstance.get()
add_new_partitions(instance, "datasource", connection)
tags = {"dagster/asset_partition_range_start": "0", "dagster/asset_partition_range_end": "2"}
checks = []
for job, job_tags in (("squares_job", tags), ("squares_audit_job", {})):
    result = defs.resolve_job_def(job).execute_in_process(instance=instance, tags=job_tags, raise_on_error=False)
    checks += result.get_asset_check_evaluations()
    if not result.success:
        sys.exit(f"{job} failed")
assert all(check.passed for check in checks)
print("checks:", len(checks))
"""


class CommandLineWatcher:
    """Reads the command lines of all processes repeatedly, and keeps those that contain the canary."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.polls = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.polls += 1
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                if WORD in line:
                    self.seen.add(line)

    def __enter__(self) -> "CommandLineWatcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


@contextmanager
def verbose_connect_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkConnectServer]:
    config = folder / "verbose.properties"
    log4j = spark_config.LOG4J.read_text().replace("rootLogger.level = error", "rootLogger.level = info")
    config.write_text(log4j.replace("level = off", "level = debug") + VERBOSE)
    monkeypatch.setattr(spark_config, "LOG4J", config)
    port = ReservedPort()
    server = SparkConnectServer(folder / "spark", port=port.number, settings=Settings.load())
    server.start()
    try:
        yield server
    finally:
        server.stop()
        port.release()


@pytest.mark.timeout(600)
def test_a_password_is_stored_and_logged_nowhere(
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
    output = tmp_path / "output.txt"
    with (
        CommandLineWatcher() as watcher,
        verbose_connect_server(tmp_path, monkeypatch) as server,
        output.open("wb") as out,
    ):
        monkeypatch.setenv("EOS_SPARK", server.address)

        def run(*command: str, status: int = 0) -> None:
            code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=300).returncode
            assert code == status, output.read_text()

        run(*EOS, "topics", "create", "--pipeline", "squares")
        fill(guarded.admin, "datasource", 300)
        run(EOS[0], "-c", MATERIALIZE)
        logging_all = ["--log-format", "json", "--log-level", "debug"]
        for command in (["settings"], ["doctor"], ["history", "squares"], ["exporter", "--once"]):
            run(*EOS, *logging_all, *command, status=0)
        monkeypatch.setenv("EOS_KAFKA_USERNAME", "nobody")
        run(*EOS, *logging_all, "plan", "squares", status=1)
    assert "checks: 11" in output.read_text()
    assert '"event": "refusal"' in output.read_text()
    assert "eos_pipeline_up" in output.read_text()
    assert "rejects the credentials of User:nobody" in output.read_text()
    assert watcher.polls > 10
    assert watcher.seen == set()
    log = server.log.read_text(errors="replace")
    assert "DEBUG KafkaDataConsumer" in log, "the log of the Kafka reader is verbose"
    leaks = [path for path in remaining_files(tmp_path, guarded.cluster.folder) if WORD.encode() in path.read_bytes()]
    assert leaks == []


def remaining_files(*folders: Path) -> list[Path]:
    """Every file that remains: logs, tables, the instance's events, the brokers' data."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".parquet" for path in files)
    assert any(path.suffix == ".db" for path in files)
    return files


def test_a_failing_connection_does_not_log_the_password(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = replace(guarded.user, security=replace(guarded.user.security, username="nobody"))
    with pytest.raises(EosError) as error:
        wrong.metadata()
    printed = f"{error.value}{error.value!r}{caplog.text}{capfd.readouterr()}"
    assert WORD not in printed
