"""One of three brokers is killed or paused: another one takes over what it led, and each record is there once."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eos_assets.declare.options import Batching
from eos_assets.experiment.faults import Faults
from eos_assets.local.broker import KafkaCluster
from eos_assets.transform.source import READER_OPTIONS
from eos_assets.verify.scope import ProofScope
from eos_assets.verify.totals.topic_pass import TopicPass, run_here
from eos_assets_tests.kafka.replicas import await_in_sync, group_coordinator, leader, transaction_coordinator
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import Lab, declare
from eos_assets_tests.scenarios.brokers.test_broker_faults import assert_exact, resume
from eos_assets_tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

Role = Callable[[Lab], int]


def source_leader(lab: Lab) -> int:
    """The broker from which the records are read."""
    return leader(lab.connection, lab.source)


def decider(lab: Lab) -> int:
    """The coordinator of the transactions."""
    return transaction_coordinator(lab.connection, lab.pipeline.names().transactional_id(0))


def offset_keeper(lab: Lab) -> int:
    """The coordinator of the group."""
    return group_coordinator(lab.connection, lab.pipeline.names().group)


def make_lab(spark: SparkSession, cluster: KafkaCluster, kind: str, count: int, timeout_ms: int = 10_000) -> Lab:
    batching = Batching(records=10_000, timeout_ms=timeout_ms)
    lab = Lab(spark, cluster.connection, declare(kind=kind, partitions=1, batching=batching))
    lab.create()
    lab.fill(count)
    return lab


def go_on(lab: Lab, count: int) -> None:
    assert_exact(lab, count)
    await_in_sync(lab.connection)


@pytest.mark.parametrize(
    ("kind", "failpoint", "role", "count"),
    [
        # When the first records have been read: the others come from the next leader.
        pytest.param("frames", "before_init", source_leader, 100_000, id="read by Spark"),
        pytest.param("batches", "before_init", source_leader, 100_000, id="read by the task"),
        pytest.param("frames", "after_offsets", offset_keeper, 1000, id="before the offsets"),
        pytest.param("batches", "before_commit", decider, 1000, id="before the commit"),
        pytest.param("frames", "after_commit", decider, 1000, id="after the commit"),
    ],
)
def test_a_broker_that_is_killed_is_replaced_by_another(
    spark: SparkSession,
    three_brokers: KafkaCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    failpoint: str,
    role: Role,
    count: int,
) -> None:
    """F7: the run ends before the killed broker comes back."""
    monkeypatch.setitem(
        READER_OPTIONS, "kafka.max.partition.fetch.bytes", "20000"
    )  # the first fetch brings few records
    lab = make_lab(spark, three_brokers, kind, count)
    lab.run(max_records=1)  # so that the coordinators exist
    run = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    victim = role(lab)
    three_brokers.kill(victim)
    try:
        resume(run, pid)
        assert run.result().complete
        assert not three_brokers.nodes[victim - 1].is_running()
        assert role(lab) != victim
    finally:
        three_brokers.restart(victim)
    go_on(lab, count)


@pytest.mark.parametrize(
    ("kind", "failpoint", "role"),
    [
        pytest.param("frames", "mid_produce", source_leader, id="while producing"),
        pytest.param("batches", "before_commit", decider, id="before the commit"),
    ],
)
def test_a_broker_that_is_paused_is_replaced_by_another(
    spark: SparkSession, three_brokers: KafkaCluster, tmp_path: Path, kind: str, failpoint: str, role: Role
) -> None:
    """F8: beyond the transaction timeout. It wakes when the run has ended, and still believes that it leads."""
    lab = make_lab(spark, three_brokers, kind, 1000, timeout_ms=2000)
    lab.run(max_records=1)
    run = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    victim = role(lab)
    process = three_brokers.nodes[victim - 1].process
    assert process is not None
    process.pause()
    try:
        wait_for(lambda: role(lab) != victim)
        resume(run, pid)
        assert run.result().complete
    finally:
        process.resume()
    go_on(lab, 1000)


def test_a_broker_that_is_killed_during_a_proof_is_replaced_by_another(
    spark: SparkSession, three_brokers: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7."""
    lab = make_lab(spark, three_brokers, "batches", 1000)
    assert lab.run().complete
    started, killed = threading.Event(), threading.Event()

    def awaiting(scope: ProofScope, config: dict[str, Any], passes: Sequence[TopicPass]) -> list[pa.RecordBatch]:
        started.set()
        assert killed.wait(60)
        return run_here(scope, config, passes)

    monkeypatch.setattr("eos_assets.verify.totals.comparison.run_here", awaiting)
    with ThreadPoolExecutor() as pool:
        proof = pool.submit(lab.proof, full=True)
        assert started.wait(60)
        victim = leader(lab.connection, lab.sink)
        three_brokers.kill(victim)
        assert not three_brokers.nodes[victim - 1].is_running()
        killed.set()
        try:
            assert proof.result().holds
            assert leader(lab.connection, lab.sink) != victim
        finally:
            three_brokers.restart(victim)
    await_in_sync(lab.connection)
