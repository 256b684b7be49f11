"""What may be wrong with a source: an open transaction, holes, lost records, growth, poison records."""

import os
import uuid

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.kafka.admin import await_visible
from eos_assets.run.plan import make_plan
from eos_assets_tests.run.lab import KINDS, Lab, MakeLab, both_kinds, squared
from eos_assets_tests.run.messages import on_message
from eos_assets_tests.waiting import wait_for


@both_kinds
def test_the_plan_ends_before_an_open_transaction_of_another_producer(make_lab: MakeLab) -> None:
    """F12."""
    lab = make_lab(partitions=1)
    lab.produce([b"%d" % n for n in range(10)])
    idle = lab.open_transaction([b"%d" % n for n in range(10, 20)])
    lab.produce([b"%d" % n for n in range(20, 30)])
    (plan,) = make_plan(lab.pipeline, lab.connection)
    assert (plan.stable_end, plan.high_watermark) == (10, 30)
    lab.run()
    lab.assert_squares(range(10))
    assert f"; {lab.source}/0 is held back at offset 10 by producer " in str(lab.run()), "it names what is in the way"
    idle.commit_transaction(30)
    lab.run()
    lab.assert_squares(range(30))
    assert lab.broken() == set()


@both_kinds
@pytest.mark.parametrize("shape", ["first", "last", "middle", "nothing else", "around a record"])
def test_holes_in_the_offsets_are_not_losses(make_lab: MakeLab, shape: str) -> None:
    """F13: markers and aborted records first, last, in the middle, and nothing but them."""
    lab = make_lab(partitions=1)
    hole = [b"99"] * 50
    wanted: list[int] = []
    if shape in ("first", "nothing else", "around a record"):
        lab.produce_transaction(hole, commit=False)
    if shape != "nothing else":
        lab.produce_transaction([b"1", b"2", b"3"], commit=True)
        wanted += [1, 2, 3]
    if shape in ("last", "middle", "around a record", "nothing else"):
        lab.produce_transaction(hole, commit=False)
    if shape == "middle":
        lab.produce([b"4", b"5"])
        wanted += [4, 5]
    assert lab.run().complete
    lab.assert_squares(wanted)
    assert lab.lag() == 0
    assert lab.broken() == set()


def compacted_source(lab: Lab) -> None:
    """Create the lab's source again, so that the broker compacts it within seconds."""
    connection, topic = lab.connection, lab.source
    connection.admin.delete_topics([topic])[topic].result()
    wait_for(lambda: topic not in connection.metadata().topics)
    config = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
    connection.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result()
    await_visible({topic}, connection)


def await_compaction(lab: Lab, left: int) -> None:
    """Write markers until the active segment is rolled and the cleaner has compacted it."""

    def compacted() -> bool:
        lab.produce_transaction([b"0"], commit=False)
        return len(lab.read(lab.source)) == left

    wait_for(compacted, 120)


def test_compacted_records_are_not_losses(make_lab: MakeLab) -> None:
    """F13: holes that were there before the run, and holes that came after it. Both kinds of pipelines read one source,
    because it takes a while until it is compacted."""
    source = Topic(f"t{uuid.uuid4().hex[:10]}-source", partitions=1, compacted=True)
    labs = [make_lab(kind=kind, partitions=1, source=source) for kind in KINDS]
    compacted_source(labs[0])
    for _ in range(3):
        labs[0].produce([b"1", b"2", b"3"])
    await_compaction(labs[0], 3)
    for lab in labs:
        assert lab.run().complete
        assert set(lab.values()) == {b"1", b"4", b"9"}
        assert len(lab.values()) == 3
        assert lab.broken() == set()
    labs[0].produce([b"2", b"3"])
    assert all(lab.run().complete for lab in labs)
    await_compaction(labs[0], 3)
    for lab in labs:
        assert len(lab.values()) == 5
        proof = lab.proof(full=True)
        assert proof.holds, [finding for finding in proof.findings if not finding.holds]
        assert proof.figures["no_longer_provable"] == 2, "two source records have made way for later ones"
        forger = Producer(lab.connection.config())
        forger.produce(lab.sink, b"16", b"4", 0)
        forger.flush()
        assert {"none_invented", "values_recompute"} <= lab.broken(), "compaction excuses nothing else"


@both_kinds
def test_a_source_truncated_beyond_the_position_names_the_lost_range(make_lab: MakeLab) -> None:
    """F15."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run(max_records=40)
    for future in lab.connection.admin.delete_records([TopicPartition(lab.source, 0, 70)]).values():
        future.result()
    with pytest.raises(EosError, match="offsets 40 to 69 were deleted"):
        lab.run()
    lab.assert_squares(range(40))
    following = lab.with_(generation=2, shared_sink=True)
    following.create()
    assert following.run().complete, "the remedy of the error"
    lab.assert_squares([*range(40), *range(70, 100)])
    assert following.broken() == set()


def test_a_source_that_is_cut_while_its_first_run_is_under_way_names_the_lost_range(make_lab: MakeLab) -> None:
    """F15. No ledger shows yet where it began."""

    def cutting(records: DataFrame) -> DataFrame:
        for future in lab.connection.admin.delete_records([TopicPartition(lab.source, 0, 70)]).values():
            future.result()
        return squared(records)

    lab = make_lab(cutting, partitions=1)
    lab.fill(100)
    with pytest.raises(EosError, match="offsets 0 to 69 were deleted"):
        lab.run()
    assert lab.read() == []


@both_kinds
def test_added_partitions_are_picked_up_once_from_their_start(make_lab: MakeLab) -> None:
    """F17."""
    lab = make_lab(partitions=3)
    lab.fill(400)
    lab.run()
    lab.connection.admin.create_partitions([NewPartitions(lab.source, 4)])[lab.source].result()
    wait_for(lambda: len(lab.connection.partitions(lab.source)) == 4)
    lab.produce([b"%d" % n for n in range(1000, 1050)], partition=3)
    report = lab.run()
    assert report.complete
    assert {entry.partition for entry in report.entries} == {3}
    lab.assert_squares([*range(400), *range(1000, 1050)])
    assert lab.broken() == set()


def test_a_source_that_grows_during_a_run_waits_for_the_next_one(make_lab: MakeLab) -> None:
    """F17, between two attempts."""
    lab = make_lab(partitions=1)
    lab.fill(100)

    def grow(_: str) -> None:
        lab.connection.admin.create_partitions([NewPartitions(lab.source, 2)])[lab.source].result()
        wait_for(lambda: len(lab.connection.partitions(lab.source)) == 2)

    with on_message(grow):
        assert not lab.run(Faults(probability=1), max_attempts=1).complete
    lab.produce([b"1000"], partition=1)
    assert lab.run().complete
    assert sorted(int(value or 0) for value in lab.values()) == [number**2 for number in (*range(100), 1000)]
    assert lab.broken() == set()


@both_kinds
def test_a_poison_record_becomes_a_dead_letter_with_its_own_bytes(make_lab: MakeLab) -> None:
    """F19."""
    lab = make_lab(partitions=1)
    lab.produce([b"1", b"2"])
    lab.produce([b"two \xff"], key=b"k", headers=[("trace", b"7")])
    lab.produce([b"3"])
    report = lab.run()
    assert report.summary()[0].dead == 1
    lab.assert_squares([1, 2, 3])
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert (letter.key(), letter.value()) == (b"k", b"two \xff")
    headers = dict(letter.headers() or [])
    assert headers["trace"] == b"7"
    assert headers["eos.error"] == b"no integer"
    assert headers["eos.origin"] == f"{lab.source}/0/2".encode()
    assert lab.broken() == set()


def test_a_record_too_large_for_the_sink_commits_nothing_and_is_named(make_lab: MakeLab) -> None:
    """F19: random bytes, which do not shrink in a compressed batch."""
    name = f"small-{uuid.uuid4().hex[:8]}"
    small = Topic(name, partitions=1, max_message_bytes=2000)
    lab = make_lab(lambda records: records.select("key", "value", "origin"), partitions=1, sink=[small])
    lab.produce([b"1", os.urandom(5000)], key=b"k")
    report = lab.run()
    assert not report.complete
    assert report.outcomes[-1].outcome == "failed"
    assert "too large" in report.outcomes[-1].reason or "size" in report.outcomes[-1].reason
    assert lab.read() == []


def test_a_dead_letter_too_large_for_its_topic_is_named_and_not_what_was_purged_with_it(make_lab: MakeLab) -> None:
    """The record just fits; the reason makes it larger."""

    def rejected(records: DataFrame) -> DataFrame:
        large = f.octet_length("value") > 1000
        reason = f.when(large, f.hex(f.substring("value", 1, 2000)))
        return records.select("value", reason.alias("error"), "origin")

    source = Topic(f"large-{uuid.uuid4().hex[:8]}", partitions=1, max_message_bytes=1_000_000)
    lab = make_lab(rejected, source=source)
    lab.produce([b"%d" % n for n in range(100)])
    lab.produce([os.urandom(999_880)], key=None)
    report = lab.run()
    assert not report.complete
    outcome = report.outcomes[-1]
    assert outcome.outcome == "failed"
    assert f"the output of {lab.source}/0 offset 100 was not delivered to {lab.sink}-dead-letters/0" in outcome.reason
    assert "raise its max.message.bytes" in outcome.reason
    assert lab.read() == []
