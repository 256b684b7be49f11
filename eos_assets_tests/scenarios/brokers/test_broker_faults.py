"""A broker is killed or paused while a worker is at a step of its transaction, and each record is there once."""

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eos_assets.deadlines import Deadline
from eos_assets.declare.options import Batching
from eos_assets.declare.topic import Topic
from eos_assets.experiment.faults import Faults
from eos_assets.experiment.fill import fill
from eos_assets.kafka import range_reader
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.auth_errors import NoBrokerAnswers
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.range_reader import PartitionRange, read_batches
from eos_assets.local.broker import KafkaCluster
from eos_assets.verify.scope import ProofScope
from eos_assets.verify.totals.topic_pass import TopicPass, run_here
from eos_assets_tests.cli.command import eos
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import KINDS, Lab, declare
from eos_assets_tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)


def make_lab(spark: SparkSession, cluster: KafkaCluster, kind: str, timeout_ms: int) -> Lab:
    lab = Lab(spark, cluster.connection, declare(kind=kind, partitions=1, batching=Batching(timeout_ms=timeout_ms)))
    lab.create()
    lab.fill(1000)
    return lab


def resume(run: Background, pid: int, seconds: float = 120) -> None:
    """Let the worker go on wherever it stops, until the run has ended or the time is up."""
    deadline = Deadline(seconds)
    while run.thread.is_alive() and not deadline.passed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        run.thread.join(0.05)


def await_markers(lab: Lab) -> None:
    """Wait until the commit has reached the partitions. A single broker that dies before may leave the transaction
    open for ever: docs/exactly-once.md."""
    topics = (lab.sink, lab.pipeline.names().ledger)
    wait_for(
        lambda: all(each.stable == each.high for topic in topics for each in bounds(lab.connection, topic).values())
    )


def assert_exact(lab: Lab, count: int = 1000) -> None:
    """Also a commit whose broker died at once becomes visible, when the coordinator has finished it."""
    await_markers(lab)
    lab.assert_squares(range(count))
    assert lab.lag() == 0
    assert lab.broken() == set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failpoint", ["after_init", "mid_produce", "after_offsets", "before_commit", "after_commit"])
def test_a_broker_that_is_killed_during_a_transaction(
    spark: SparkSession, one_broker: KafkaCluster, tmp_path: Path, kind: str, failpoint: str
) -> None:
    """F7: the run goes on with the broker that has come back with its disk."""
    lab = make_lab(spark, one_broker, kind, timeout_ms=10_000)
    run = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    if failpoint == "after_commit":
        await_markers(lab)
    one_broker.kill(1)
    assert not one_broker.nodes[0].is_running()
    os.kill(pid, signal.SIGCONT)
    one_broker.restart(1)
    resume(run, pid)
    assert run.result().complete
    assert_exact(lab)


@pytest.mark.parametrize("failpoint", ["mid_produce", "before_commit"])
def test_a_broker_that_is_paused_beyond_the_transaction_timeout(
    spark: SparkSession, one_broker: KafkaCluster, tmp_path: Path, failpoint: str
) -> None:
    """F8: the outcome of the transaction is unknown to the worker, and the next attempt resolves it."""
    lab = make_lab(spark, one_broker, "batches", timeout_ms=2_000)
    run = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    process = one_broker.nodes[0].process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        resume(run, pid, seconds=5)
        assert run.thread.is_alive(), "it cannot end while the broker is paused"
    finally:
        os.kill(process.pid, signal.SIGCONT)
    resume(run, pid)
    report = run.result()
    assert report.complete
    assert len(report.entries) == 1, "of the first attempt or of a later one"
    assert_exact(lab)


def test_a_broker_that_is_killed_during_a_proof(
    spark: SparkSession, one_broker: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7: the passes over the topics wait for the broker that comes back."""
    lab = make_lab(spark, one_broker, "batches", timeout_ms=10_000)
    assert lab.run().complete
    started, restarted = threading.Event(), threading.Event()

    def awaiting(scope: ProofScope, config: dict[str, Any], passes: Sequence[TopicPass]) -> list[pa.RecordBatch]:
        started.set()
        assert restarted.wait(60)
        return run_here(scope, config, passes)

    monkeypatch.setattr("eos_assets.verify.totals.comparison.run_here", awaiting)
    with ThreadPoolExecutor() as pool:
        proof = pool.submit(lab.proof, full=True)
        assert started.wait(60)
        one_broker.kill(1)
        assert not one_broker.nodes[0].is_running()
        restarted.set()
        one_broker.restart(1)
        assert proof.result().holds


def test_a_broker_that_dies_in_the_middle_is_awaited(one_broker: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: the client holds a few records ahead, so most of them are fetched from the broker that has come back."""
    few = {"queued.min.messages": 100, "queued.max.messages.kbytes": 100, "max.partition.fetch.bytes": 20_000}
    monkeypatch.setattr(range_reader, "SETTINGS", {**range_reader.SETTINGS, **few})
    topic = f"t{uuid.uuid4().hex[:10]}"
    create_topics([Topic(topic, partitions=1)], one_broker.connection)
    fill(one_broker.connection, topic, 50_000)
    batches = read_batches(one_broker.connection.config(), PartitionRange(topic, 0, 0, 50_000), rows=1000)
    first = next(batches)
    one_broker.kill(1)
    assert not one_broker.nodes[0].is_running()
    one_broker.restart(1)
    values = [value for batch in (first, *batches) for value in batch["value"].to_pylist()]
    assert values == [b"%d" % number for number in range(50_000)]


def test_a_run_whose_broker_stays_away_reports_it_and_ends(
    spark: SparkSession, one_broker: KafkaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F7: long before the tasks give up by themselves. A later run continues after the last commit."""
    lab = make_lab(spark, one_broker, "frames", timeout_ms=60_000)
    patient = replace(lab, connection=replace(lab.connection, wait_seconds=12))
    run = Background(patient, Faults(failpoint="mid_produce", action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    one_broker.kill(1)
    try:
        died = time.monotonic()
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: f"No Kafka broker answers at {one_broker.bootstrap_servers}" in caplog.text, 30)
        run.thread.join(60)
        assert not run.thread.is_alive()
        assert time.monotonic() - died < 12 + 30
        assert isinstance(run.error, NoBrokerAnswers)
        assert f"at {one_broker.bootstrap_servers} for 12 s" in run.error.problem
        assert not one_broker.nodes[0].is_running()
    finally:
        one_broker.restart(1)
    assert lab.run().complete
    assert_exact(lab)


def test_a_run_whose_broker_is_away_before_it_starts_ends_with_status_1(one_broker: KafkaCluster) -> None:
    one_broker.shut_down(1)
    try:
        started = time.monotonic()
        run = eos("run", "squares", status=1, EOS_BOOTSTRAP_SERVERS=one_broker.bootstrap_servers)
        assert time.monotonic() - started < 30
        assert f"No Kafka broker answers at {one_broker.bootstrap_servers}" in run.stderr
    finally:
        one_broker.restart(1)
