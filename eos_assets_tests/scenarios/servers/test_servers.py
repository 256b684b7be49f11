"""`eos up`, `eos status`, `eos down`: servers are kept, found and stopped, and no other process is touched."""

import csv
import json
import os
import signal
import socket
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer

from eos_assets.kafka.connection import Connection
from eos_assets.local.marker import marked_processes
from eos_assets.local.stack import Stack
from eos_assets.platform.folders import hold_lock
from eos_assets.platform.settings import Settings
from eos_assets_tests.cli.command import EOS, eos
from eos_assets_tests.kafka.reading import read_integers, read_pairs
from eos_assets_tests.metrics.test_exporter import of, scrape
from eos_assets_tests.waiting import wait_for


def status() -> dict[str, Any]:
    report = json.loads(eos("status", "--json").stdout)
    assert isinstance(report, dict)
    return report


def pids(report: dict[str, Any]) -> dict[str, int]:
    return {server["name"]: server["pid"] for server in report["servers"]}


def left_behind() -> list[psutil.Process]:
    return marked_processes(Settings.load().home)


SQUARES_ON_CONNECT = """
from eos_assets.orchestration.resources.spark import SparkResource
from pyspark.sql import functions as f
spark = SparkResource(address="connect").spark_session
assert "connect" in type(spark).__module__, type(spark)
doubled = spark.range(10).mapInArrow(lambda batches: batches, "id long")
print(doubled.agg(f.sum("id")).first()[0])
"""


@pytest.mark.timeout(600)
def test_a_stack_lives_from_up_to_down(home: Path, ports: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EOS_FILES_ROOT", str(home.parent / "incoming"))
    first = eos("up", "--no-dagster", "--exporter").stdout
    assert f"127.0.0.1:{ports[0]}" in first
    before = pids(status())
    assert set(before) == {"kafka-1", "spark", "exporter"}
    metrics = status()["exporter"]
    assert of(scrape(metrics), "eos_up") == 1
    eos("fill", "datasource", "--count", "1000")

    eos("up", "--no-dagster")
    assert pids(status()) == before, "a running server is kept"

    script = [EOS[0], "-c", SQUARES_ON_CONNECT]
    run = subprocess.run(script, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "45", run.stderr

    psutil.Process(before["kafka-1"]).kill()
    wait_for(lambda: status()["servers"][0]["state"] == "dead")
    assert "kafka-1 died" in " ".join(eos("doctor", status=1).stdout.split())
    assert "kafka-1 died, see" in eos("topics", "list", status=1).stderr, "instead of a connection error"
    assert scrape(metrics) == {("eos_up", ()): 0}, "without a broker it answers"
    eos("up", "--no-dagster")
    wait_for(lambda: of(scrape(metrics), "eos_up") == 1)
    after = status()
    assert pids(after)["kafka-1"] != before["kafka-1"]
    assert pids(after)["spark"] == before["spark"]
    eos("fill", "datasource", "--count", "1000")
    assert read_integers(after["bootstrap_servers"], "datasource") == list(range(2000))
    for server in after["servers"]:
        assert Path(server["data"]).is_dir()
        assert Path(server["log"]).is_file()

    eos("topics", "create")
    report = json.loads(eos("run", "squares", "--failure-probability", "0.3", "--json").stdout)
    assert report["complete"]
    assert sum(row["records_out"] for row in report["partitions"]) == 2000
    assert of(scrape(metrics), "eos_records_out_total", pipeline="squares") == 2000
    proof = json.loads(eos("verify", "squares", "--json").stdout)
    assert proof["holds"], "the same pipeline on Spark Connect"
    assert proof["sink_records"] == 2000
    assert "datasource/0/7" in eos("trace", "datasink", "0", "7").stdout
    assert "datasink/0/7" in eos("trace", "--source", "datasource", "0", "7").stdout
    check_exit_statuses(after["bootstrap_servers"])
    check_files_and_balances(after["bootstrap_servers"])

    assert "holds the data of 1 broker" in eos("up", "--brokers", "3", status=1).stderr
    assert "warning" not in eos("doctor").stdout, "every server listens on loopback only"

    assert "Stopped the servers of" in eos("down").stdout
    assert left_behind() == []
    assert status()["servers"] == []
    assert "Nothing" in eos("down").stdout
    eos("down", "--delete-data")
    assert not (home / "kafka").exists()


@pytest.mark.timeout(600)
def test_three_brokers_live_from_up_to_down(home: Path, ports: tuple[int, int]) -> None:
    eos("up", "--brokers", "3", "--no-dagster")
    report = status()
    assert set(pids(report)) == {"kafka-1", "kafka-2", "kafka-3", "spark"}
    assert {server["state"] for server in report["servers"]} == {"running"}
    assert report["bootstrap_servers"] == ",".join(f"127.0.0.1:{ports[0] + 2 * n}" for n in range(3))
    eos("fill", "datasource", "--count", "100")
    partitions = Connection(report["bootstrap_servers"]).metadata().topics["datasource"].partitions
    assert {len(p.replicas) for p in partitions.values()} == {3}
    assert "Stopped the servers of" in eos("down").stdout
    assert left_behind() == []


def check_exit_statuses(servers: str) -> None:
    """Commands that only read, that run in part, and that detect a violation."""
    before = json.loads(eos("plan", "squares", "--json").stdout)
    assert {plan["lag"] for plan in before} == {0}
    eos("fill", "datasource", "--count", "300")
    plans = json.loads(eos("plan", "squares", "--json").stdout)
    assert sum(plan["lag"] for plan in plans) == 300
    assert [plan["position"] for plan in plans] == [plan["position"] for plan in before]
    position = str(before[0]["position"])
    assert "not yet processed" in eos("trace", "--source", "datasource", "0", position).stdout
    assert "preview of squares" in eos("preview", "squares", "--records", "3").stdout
    failed = eos("run", "squares", "--failure-probability", "1", "--max-attempts", "1", "--json", status=1)
    assert not json.loads(failed.stdout)["complete"]
    part = json.loads(eos("run", "squares", "--partition", "0", "--max-records", "10", "--json").stdout)
    assert [(row["partition"], row["records_in"]) for row in part["partitions"]] == [(0, 10)]
    eos("run", "squares")
    assert "Spark cannot run the query" in eos("audit", "squares", "--sql", "select nothing", status=1).stderr
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("datasink", b"[/x] 25", b"[bold]5", 0)
    producer.flush()
    for more in ([], ["--isolation", "read_uncommitted"]):
        assert "none_invented" in eos("verify", "squares", *more, status=1).stdout
    assert "none_invented" in eos("checks", "squares", status=1).stdout


def check_files_and_balances(servers: str) -> None:
    """Turn a file of transactions into balances, and compare them with a sum over its lines."""
    (line,) = eos("files", "generate", "--count", "200", "--accounts", "9").stdout.splitlines()
    path = line.split("  ")[0]
    eos("files", "announce", path)
    sums: dict[str, Decimal] = {}
    rejected = 0
    with Path(path).open(newline="") as file:
        for row in csv.DictReader(file):
            balance = sums.get(row["account"], Decimal(0)) + Decimal(row["amount"])
            rejected += balance < -1000
            if balance >= -1000:
                sums[row["account"]] = balance
    assert rejected, "the rule must apply"
    for name, dead in (("file_transactions", 0), ("balances", rejected)):
        report = json.loads(eos("run", name, "--failure-probability", "0.3", "--json").stdout)
        assert report["complete"]
        assert sum(row["dead"] for row in report["partitions"]) == dead
        assert json.loads(eos("verify", name, "--json").stdout)["holds"]
    balances: dict[str, Decimal] = {}
    for pairs in read_pairs(servers, "balances").values():
        for key, value in pairs:
            balances[key.decode()] = Decimal(json.loads(value)["balance"])
    assert balances == sums


def restore_interrupts() -> None:
    """A suite in the background ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_leaves_no_orphan(home: Path, ports: tuple[int, int], name: signal.Signals) -> None:
    quiet = subprocess.DEVNULL
    with subprocess.Popen([*EOS, "up"], stderr=quiet, stdout=quiet, preexec_fn=restore_interrupts) as child:
        wait_for(lambda: len(left_behind()) > 0)
        child.send_signal(name)
        assert child.wait(60) != 0
    assert left_behind() == []
    assert status()["servers"] == []


def test_down_stops_what_a_crashed_up_left(home: Path, ports: tuple[int, int]) -> None:
    with subprocess.Popen([*EOS, "up"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
        wait_for(lambda: len(left_behind()) > 0)
        child.send_signal(signal.SIGKILL)
    orphans = left_behind()
    assert orphans != []
    with subprocess.Popen([*EOS, "up"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as second:
        wait_for(lambda: not any(orphan.is_running() for orphan in orphans))
        wait_for(lambda: len(left_behind()) > 0)
        second.send_signal(signal.SIGKILL)
    eos("down")
    assert left_behind() == []


def test_a_taken_port_names_its_holder(home: Path, ports: tuple[int, int]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[0]))
        taken.listen()
        run = eos("up", status=1)
        assert f"Port {ports[0]}, wanted for Kafka broker 1, is taken by process {os.getpid()}" in run.stderr
        assert "--kafka-port" in run.stderr
    assert left_behind() == []


def test_a_port_that_spark_wants_is_checked_before_kafka_starts(home: Path, ports: tuple[int, int]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[1]))
        taken.listen()
        assert f"Port {ports[1]}, wanted for Spark Connect" in eos("up", status=1).stderr
    assert left_behind() == []
    assert not (home / "kafka").exists()


def test_ports_that_overlap_are_refused_first(home: Path, ports: tuple[int, int]) -> None:
    run = eos("up", "--spark-port", str(ports[0] + 1), status=1)
    assert f"Port {ports[0] + 1} is wanted for the controller of Kafka broker 1 and for Spark Connect" in run.stderr
    assert left_behind() == []


def test_a_lock_held_by_another_up_is_named(home: Path, ports: tuple[int, int]) -> None:
    home.mkdir()
    with hold_lock(home / "stack.lock", wait=False, busy=""):
        for command in ("up", "down"):
            run = eos(command, status=1)
            assert "Another `eos up` or `eos down` is at work" in run.stderr
            assert f"process {os.getpid()}" in run.stderr


def test_without_java_the_remedy_is_printed(home: Path, tmp_path: Path) -> None:
    run = eos("up", status=1, PATH=str(tmp_path), JAVA_HOME="")
    assert "No Java in the PATH" in run.stderr
    assert "Install Java 17 or 21" in run.stderr


def test_a_failed_up_does_not_affect_the_next(home: Path, ports: tuple[int, int], tmp_path: Path) -> None:
    eos("up", status=1, PATH=str(tmp_path), JAVA_HOME="")
    assert Stack(Settings.load()).formatted_brokers() == 0


def test_ports_beyond_the_last_one_are_refused(home: Path) -> None:
    assert "need ports above 65535" in eos("up", "--kafka-port", "65535", status=1).stderr


def test_a_home_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = eos("up", status=1, EOS_HOME=str(tmp_path / "file" / "home"))
    assert "cannot be a folder" in run.stderr


def test_without_kafka_the_remedy_is_printed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EOS_BOOTSTRAP_SERVERS", raising=False)
    for command in (["fill", "datasource", "--count", "1"], ["topics", "list"]):
        run = eos(*command, status=1)
        assert "eos up" in run.stderr


def test_a_wrong_setting_is_refused_by_its_name(connection: Connection) -> None:
    assert "Did you mean EOS_KAFKA_PORT" in eos("status", status=1, EOS_KAFKA_PROT="1").stderr
    assert "EOS_KAFKA_PORT=abc is not a port" in eos("status", status=1, EOS_KAFKA_PORT="abc").stderr
