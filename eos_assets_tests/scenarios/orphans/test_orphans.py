"""Orphans, which are open transactions that no coordinator ends: named by plan, run and check, and aborted."""

from collections.abc import Iterator

import pytest
from kafka import TopicPartition
from kafka.admin import AbortTransactionSpec
from pyspark.sql import SparkSession

from eos_assets.declare.options import Batching
from eos_assets.errors import EosError
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.open_transactions import abort_transactions, find_open_transactions
from eos_assets.kafka.transaction_client import ask_transactions
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets.run.plan import describe_held_back, make_plan
from eos_assets.verify import verify
from eos_assets_tests.cli.command import eos
from eos_assets_tests.run.lab import Lab, declare
from eos_assets_tests.scenarios.orphans.late_produce import produce_late
from eos_assets_tests.waiting import wait_for

HOUR = 3600.0
ORPHAN = 4242


@pytest.fixture(scope="module")
def cluster(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that accepts a produce request whose partition the coordinator does not know, as those before 3.6 do."""
    overrides = {"transaction.partition.verification.enable": "false"}
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings, overrides=overrides) as started:
        yield started


@pytest.fixture
def lab(spark: SparkSession, cluster: KafkaCluster) -> Lab:
    lab = Lab(spark, cluster.connection, declare(partitions=1, batching=Batching(timeout_ms=1000)))
    lab.create()
    return lab


def squares_of(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_an_orphan_that_holds_back_the_source_is_named_and_aborted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """F12, with a transaction that never ends by itself."""
    lab.produce(squares_of(0, 10))
    produce_late(lab.connection, (lab.source, 0), b"99", (ORPHAN, 7, 0), HOUR)
    lab.produce(squares_of(10, 20))
    (found,) = find_open_transactions(lab.connection, [lab.source])
    assert (found.offset, found.producer_id, found.epoch, found.orphan) == (10, ORPHAN, 7, True)
    assert found.transactional_id is None
    assert HOUR <= found.age_seconds < HOUR + 60

    holder = f"{lab.source}/0 is held back at offset 10 by producer {ORPHAN}, epoch 7, written to 36"
    plans = make_plan(lab.pipeline, lab.connection)
    assert describe_held_back(lab.pipeline, lab.connection, plans)[0].startswith(holder)
    assert lab.run().complete
    lab.assert_squares(range(10))
    second = lab.run()
    assert not second.planned
    assert f"; {holder}" in str(second)

    monkeypatch.setenv("EOS_BOOTSTRAP_SERVERS", lab.connection.bootstrap_servers)
    run = eos("transactions", "abort", str(ORPHAN), "--topic", lab.source, "--yes")
    assert "orphan" in run.stdout
    assert lab.run().complete
    lab.assert_squares(range(20))
    assert lab.broken() == set()


def test_an_orphan_in_the_sink_fails_the_check_which_names_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "SWEEP_SECONDS", 0.1)
    lab.produce(squares_of(0, 10))
    lab.run()
    produce_late(lab.connection, (lab.sink, 0), b"99", (ORPHAN, 0, 0), HOUR)
    finding = lab.verify()["no_open_transactions"]
    assert not finding.holds
    assert f"by producer {ORPHAN}, epoch 0, written to 36" in finding.examples[0]
    abort_transactions(lab.connection, find_open_transactions(lab.connection, [lab.sink]))
    wait_for(lambda: find_open_transactions(lab.connection, [lab.sink]) == [])
    lab.assert_squares(range(10))
    assert lab.verify()["no_open_transactions"].holds


def test_a_produce_request_after_the_abort_marker_leaves_an_orphan_of_a_known_producer(lab: Lab) -> None:
    """The coordinator knows the producer, and that its transaction is complete: it will not end this one. A marker
    without a coordinator epoch would be refused, because the partition has one of this producer."""
    lab.produce_transaction([b"1"], commit=False)
    ((_, state),) = ask_transactions(lab.connection, lambda client: client.list_transactions()).items()
    producer_id = max(listing.producer_id for listing in state)
    wait_for(lambda: bounds(lab.connection, lab.source)[0].stable == 2)
    produce_late(lab.connection, (lab.source, 0), b"99", (producer_id, 0, 1), HOUR)
    (orphan,) = find_open_transactions(lab.connection, [lab.source])
    assert (orphan.producer_id, orphan.orphan, orphan.state) == (producer_id, True, "CompleteAbort")
    assert orphan.transactional_id is not None
    assert orphan.coordinator_epoch >= 0
    unknown_epoch = AbortTransactionSpec(TopicPartition(lab.source, 0), orphan.producer_id, orphan.epoch)
    with pytest.raises(EosError, match="TransactionCoordinatorFenced"):
        ask_transactions(lab.connection, lambda client: client.abort_transaction(unknown_epoch))
    abort_transactions(lab.connection, [orphan])
    wait_for(lambda: find_open_transactions(lab.connection, [lab.source]) == [])
    assert lab.read(lab.source) == []


def test_an_orphan_that_may_be_an_open_transaction_is_left_alone(lab: Lab) -> None:
    """A coordinator that is down, or a missing permission, hides a transaction that may still be committed."""
    produce_late(lab.connection, (lab.source, 0), b"99", (ORPHAN + 1, 0, 0), age_seconds=0)
    orphans = find_open_transactions(lab.connection, [lab.source])
    with pytest.raises(EosError, match="younger than the longest transaction timeout"):
        abort_transactions(lab.connection, orphans)
    assert find_open_transactions(lab.connection, [lab.source]) == orphans
