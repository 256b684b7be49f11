"""A broker is killed or paused while a worker is at a step of its transaction, and each record is there once."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.range_reader import PartitionRange, read_batches
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets.verify.scope import ProofScope
from eos_assets.verify.totals.topic_pass import TopicPass, run_here
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import KINDS, Lab, declare
from eos_assets_tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One broker, which the tests kill and pause."""
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings, overrides=quick) as started:
        yield started


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


def assert_exact(lab: Lab) -> None:
    """Also a commit whose broker died at once becomes visible, when the coordinator has finished it."""
    wait_for(lambda: all(each.stable == each.high for each in bounds(lab.connection, lab.sink).values()))
    lab.assert_squares(range(1000))
    assert lab.lag() == 0
    assert lab.broken() == set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failpoint", ["after_init", "mid_produce", "after_offsets", "before_commit"])
def test_a_broker_that_is_killed_during_a_transaction(
    spark: SparkSession, cluster: KafkaCluster, tmp_path: Path, kind: str, failpoint: str
) -> None:
    """F7: the run goes on with the broker that has come back with its disk."""
    lab = make_lab(spark, cluster, kind, timeout_ms=10_000)
    run = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    cluster.kill(1)
    assert not cluster.nodes[0].is_running()
    os.kill(pid, signal.SIGCONT)
    cluster.restart(1)
    resume(run, pid)
    assert run.result().complete
    assert_exact(lab)


@pytest.mark.parametrize("failpoint", ["mid_produce", "before_commit"])
def test_a_broker_that_is_paused_beyond_the_transaction_timeout(
    spark: SparkSession, cluster: KafkaCluster, tmp_path: Path, failpoint: str
) -> None:
    """F8: the outcome of the transaction is unknown to the worker, and the next attempt resolves it."""
    lab = make_lab(spark, cluster, "batches", timeout_ms=2_000)
    run = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    process = cluster.nodes[0].process
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
    spark: SparkSession, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7: the passes over the topics wait for the broker that comes back."""
    lab = make_lab(spark, cluster, "batches", timeout_ms=10_000)
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
        cluster.kill(1)
        assert not cluster.nodes[0].is_running()
        restarted.set()
        cluster.restart(1)
        assert proof.result().holds


def test_a_broker_that_dies_in_the_middle_is_awaited(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client holds a few records ahead, so most of them are fetched from the broker that has come back."""
    few = {"queued.min.messages": 100, "queued.max.messages.kbytes": 100, "max.partition.fetch.bytes": 20_000}
    monkeypatch.setattr(range_reader, "SETTINGS", {**range_reader.SETTINGS, **few})
    with KafkaCluster(tmp_path, settings=settings) as cluster:
        create_topics([Topic("t", partitions=1)], cluster.connection)
        fill(cluster.connection, "t", 50_000)
        batches = read_batches(cluster.connection.config(), PartitionRange("t", 0, 0, 50_000), rows=1000)
        first = next(batches)
        cluster.kill(1)
        assert not cluster.nodes[0].is_running()
        cluster.restart(1)
        values = [value for batch in (first, *batches) for value in batch["value"].to_pylist()]
    assert values == [b"%d" % number for number in range(50_000)]
