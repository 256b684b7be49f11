"""The same pipelines on a Spark cluster and three brokers: exact, also when an executor and a broker die at once."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from eos_assets.context import PipelineContext
from eos_assets.errors import EosError
from eos_assets.experiment.fill import fill
from eos_assets.files.announce import announce, announcement
from eos_assets.files.generate import make_transactions, write_file
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.offsets import bounds
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.ports import ReservedPort
from eos_assets.local.spark_cluster import SparkCluster
from eos_assets.local.spark_server import SparkConnectServer
from eos_assets.pipelines.squares import squares
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.preflight import check_topics
from eos_assets_tests.cli.command import EOS, eos
from eos_assets_tests.kafka.reading import read_pairs
from eos_assets_tests.waiting import wait_for

RECORDS = 300_000

#: A task that needs the project, first without the shipping and then with it.
SHIPPING = """
import os
from eos_assets.platform.settings import Settings
from eos_assets.platform.shipping import ship
from eos_assets.platform.spark_config import session_config
from eos_assets.platform.spark_session import create_session

def task(batches):
    import eos_assets.sink.writer as writer
    for batch in batches:
        assert writer.__file__.count("eos_assets-"), writer.__file__
        yield batch

def count():
    try:
        return spark.range(0, 10, numPartitions=2).mapInArrow(task, "id long").count()
    except Exception as error:
        return "no module" if "No module named 'eos_assets'" in str(error) else str(error)

settings = Settings.load()
if settings.spark_python:
    os.environ["PYSPARK_PYTHON"] = settings.spark_python
spark = create_session(settings.spark, session_config(settings.spark, settings))
print(count())
ship(spark, settings.spark, settings)
print(count())
spark.stop()
"""


#: The pipelines from files to balances, each run and proven; one line about each.
FILES_TO_BALANCES = """
import json
from eos_assets.experiment.faults import Faults
from eos_assets.run.run import RunOptions, run_pipeline
from eos_assets.verify.verify import verify_pipeline
from eos_assets.platform.cluster import connect
from eos_assets.pipelines.balances import balances
from eos_assets.pipelines.file_transactions import file_transactions
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.platform.settings import Settings

settings = Settings.load()
connection, spark = connect(settings), SparkResource().spark_session
for pipeline in (file_transactions, balances):
    once = RunOptions(accepted_spark=settings.accept_spark, faults=Faults(failpoint="before_commit", action="exit"))
    report = run_pipeline(pipeline, spark, connection, once)
    proof = verify_pipeline(pipeline, spark, connection, full=True)
    checks = [check.finding(pipeline, spark, connection) for check in pipeline.checks]
    figures = {"pipeline": pipeline.name, "complete": report.complete, "holds": proof.holds, **proof.figures}
    figures["out"] = sum(entry.records_out + entry.dead for entry in report.entries)
    print(json.dumps({**figures, "checks": {check.name: check.holds for check in checks}}))
spark.stop()
"""


@pytest.fixture
def on_cluster(
    settings: Settings, spark_cluster: SparkCluster, bare_python: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkCluster:
    monkeypatch.setenv("EOS_SPARK", spark_cluster.address)
    monkeypatch.setenv("EOS_SPARK_PYTHON", str(bare_python))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)  # as the session of the other tests sets it
    return spark_cluster


def test_the_code_reaches_the_executors_behind_spark_connect(
    on_cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = ReservedPort()
    server = SparkConnectServer(tmp_path, port=port.number, settings=Settings.load(), master=on_cluster.address)
    try:
        server.start()
        monkeypatch.setenv("EOS_SPARK", server.address)
        monkeypatch.delenv("EOS_SPARK_PYTHON")  # the server has it
        run = subprocess.run([sys.executable, "-c", SHIPPING], capture_output=True, text=True, timeout=200)
        assert run.returncode == 0, run.stderr
        assert run.stdout.splitlines()[:2] == ["no module", "10"]
    finally:
        server.stop()
        port.release()


@pytest.mark.timeout(600)
def test_each_record_once_although_an_executor_and_a_broker_die_at_once(
    on_cluster: SparkCluster, brokers: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executors have a Python without the project: its code comes with the tasks."""
    monkeypatch.setenv("EOS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EOS_PROFILE", "production")
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", brokers.bootstrap_servers)
    eos("topics", "create")
    fill(brokers.connection, "datasource", RECORDS)
    executors: list[psutil.Process] = []

    def kill_both() -> None:
        executors.extend(executors_of(on_cluster))
        executors[0].kill()
        brokers.kill(2)

    run_and(kill_both, brokers)
    assert not executors[0].is_running(), "it was really killed"
    assert not brokers.nodes[1].is_running(), "it was really killed"
    brokers.restart(2)
    proof = json.loads(eos("verify", "squares", "--full", "--json").stdout)
    assert proof["holds"], proof
    assert proof["sink_records"] == RECORDS
    pairs = read_pairs(brokers.bootstrap_servers, "datasink")
    for partition in pairs.values():
        keys = [int(key) for key, _ in partition]
        assert keys == sorted(keys)
        assert all(int(value) == int(key) ** 2 for key, value in partition)
    assert sorted(int(key) for partition in pairs.values() for key, _ in partition) == list(range(RECORDS))


@pytest.mark.timeout(600)
def test_files_become_balances_although_every_worker_dies_once(
    on_cluster: SparkCluster, brokers: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EOS_PROFILE", "production")
    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", brokers.bootstrap_servers)
    monkeypatch.setenv("EOS_FILES_ROOT", str(tmp_path))
    eos("topics", "create")
    paths = [write_file(tmp_path / f"{seed}.csv.gz", make_transactions(500, seed=seed)) for seed in range(3)]
    announce(brokers.connection, "files-with-transactions", [announcement(str(path)) for path in paths])
    run = subprocess.run([sys.executable, "-c", FILES_TO_BALANCES], capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr
    files, booked = (json.loads(line) for line in run.stdout.splitlines())
    for figures in (files, booked):
        assert figures["complete"], figures
        assert figures["holds"], figures
    assert (files["out"], booked["out"]) == (1500, 1500)
    assert files["checks"] == {"files_match_ledger": True}
    assert booked["checks"] == {"balances_are_sums": True}


def run_and(disturb: Any, brokers: KafkaCluster) -> None:
    """Runs the pipeline, and disturbs it once records lie in the sink that no transaction has committed yet."""
    before = sum(there.high for there in bounds(brokers.connection, "datasink").values())
    with subprocess.Popen(
        [*EOS, "run", "squares", "--json"], env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:

        def producing() -> bool:
            assert run.poll() is None, run.stderr.read() if run.stderr else ""
            there = bounds(brokers.connection, "datasink").values()
            return sum(b.high for b in there) > before + 1000 and any(b.high > b.stable for b in there)

        wait_for(producing, 120)
        disturb()
        out, err = run.communicate(timeout=300)
    assert run.returncode == 0, f"{out}\n{err}"
    report = json.loads(out)
    assert report["complete"], report


def executors_of(cluster: SparkCluster) -> list[psutil.Process]:
    children = [child for p in cluster.processes if (h := p.handle()) for child in h.children(recursive=True)]
    return [child for child in children if "CoarseGrainedExecutorBackend" in command_line(child)]


def command_line(process: psutil.Process) -> str:
    """Empty of a process that has ended, as executors of earlier sessions have."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.parametrize(("name", "value"), [("min.insync.replicas", "1"), ("unclean.leader.election.enable", "true")])
def test_in_production_no_pipeline_runs_on_topics_that_may_lose_records(
    brokers: KafkaCluster, name: str, value: str
) -> None:
    connection = brokers.connection
    create_topics([squares.source, *squares.own_topics()], connection)
    resource = ConfigResource(ResourceType.TOPIC, "datasink-dead-letters")

    def alter(operation: AlterConfigOpType, text: str | None) -> None:
        entry = ConfigEntry(name, text, incremental_operation=operation)
        change = ConfigResource(ResourceType.TOPIC, resource.name, incremental_configs=[entry])
        connection.admin.incremental_alter_configs([change])[change].result()
        wait_for(
            lambda: (
                (connection.admin.describe_configs([resource])[resource].result()[name].value == value) == bool(text)
            )
        )

    development = PipelineContext(squares, None, connection)  # type: ignore[arg-type]  # these questions need no Spark
    production = replace(development, kafka=replace(connection, production=True))
    check_topics(production)
    alter(AlterConfigOpType.SET, value)
    try:
        with pytest.raises(EosError, match=f"datasink-dead-letters has {name}={value}, and EOS_PROFILE=production"):
            check_topics(production)
        check_topics(development)
    finally:
        alter(AlterConfigOpType.DELETE, None)
