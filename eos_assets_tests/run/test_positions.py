"""What tells where to go on: group offsets that are gone or were moved, topics that are not the same any more."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.log.reader import CommittedReader
from eos_assets.run.plan import make_plan
from eos_assets.run.preflight import topics as preflight
from eos_assets.run.preflight.topics import grow
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.run.background import Background, stopped
from eos_assets_tests.run.lab import Lab, MakeLab
from eos_assets_tests.waiting import wait_for


def test_deleted_group_offsets_are_restored_from_the_ledger(lab: Lab) -> None:
    """F14."""
    lab.fill(600)
    lab.run()
    group = lab.pipeline.names().group
    lab.connection.admin.delete_consumer_groups([group])[group].result()
    assert group_offsets(lab) == [None, None, None]
    assert lab.broken() == set(), "an absent group offset is normal after idle days"
    lab.run()
    lab.assert_squares(range(600))
    lab.fill(600)
    lab.run()
    lab.assert_squares(range(1200))
    assert group_offsets(lab) == [plan.position for plan in make_plan(lab.pipeline, lab.connection)]


def group_offsets(lab: Lab) -> list[int | None]:
    group = lab.pipeline.names().group
    wanted = [TopicPartition(lab.source, p) for p in range(3)]
    futures = lab.connection.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
    found = futures[group].result().topic_partitions
    return [at.offset if at.offset >= 0 else None for at in sorted(found, key=lambda at: at.partition)]


def test_what_a_cluster_cannot_keep_is_refused_before_anything_runs(lab: Lab) -> None:
    lab.fill(30)
    with pytest.raises(EosError, match=r"timeout_ms=3600000.* the broker allows 900000"):
        lab.with_(batching=Batching(timeout_ms=3_600_000)).run()
    with pytest.raises(EosError, match="insists on durable topics"):
        lab.with_(durability="production").run()
    assert lab.read(isolation="read_uncommitted") == []


def test_topics_that_are_missing_are_told_with_the_command_that_creates_them(lab: Lab) -> None:
    module, mode = lab.pipeline.transform.__module__, Mode.AT_LEAST_ONCE
    command = f"`eos topics create --pipeline {lab.pipeline.name} --module {module} --mode {mode}`"
    for ask in (
        lambda: make_plan(lab.pipeline, lab.connection, mode=mode),
        lambda: lab.run(mode=mode),
        lambda: lab.proof(mode=mode),
    ):
        with pytest.raises(EosError, match="needs topics that do not exist") as refused:
            ask()
        assert command in refused.value.remedy


def test_speculation_is_refused(lab: Lab) -> None:
    """However it is written. A real session takes this setting at its start only."""
    lab.fill(30)
    speculating = SimpleNamespace(version=lab.spark.version, conf={"spark.speculation": "TRUE"})
    with pytest.raises(EosError, match="Speculation is switched on"):
        replace(lab, spark=speculating).run()  # type: ignore[arg-type]
    assert lab.read(isolation="read_uncommitted") == []


def test_an_offset_inside_an_open_transaction_is_waited_for(lab: Lab) -> None:
    """It is not "no offset": that would let the ledger alone decide."""
    names = lab.pipeline.names()
    producer = Producer(lab.connection.config(transactional_id=names.transactional_id(0)))
    producer.init_transactions(30)
    producer.begin_transaction()
    member = Consumer(lab.connection.config(group_id=names.group))
    producer.send_offsets_to_transaction([TopicPartition(lab.source, 0, 7)], member.consumer_group_metadata(), 30)
    reader = CommittedReader(lab.connection.config(), names)
    try:
        with pytest.raises(KafkaException) as waited:
            reader.group_offset(0, seconds=1)
        assert waited.value.args[0].code() == KafkaError._TIMED_OUT
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(reader.group_offset, 0)
            producer.commit_transaction(30)
            assert asked.result() == 7
    finally:
        reader.close()
        member.close()


def test_the_end_of_a_transaction_is_awaited_in_its_partitions_and_not_for_ever(make_lab: MakeLab) -> None:
    """Somebody else's open transaction in a shared sink holds nobody up: slices commit behind it."""
    lab = make_lab(partitions=1, shared_sink=True, batching=Batching(records=10))
    lab.fill(30)
    reader = CommittedReader(lab.connection.config(), lab.pipeline.names())
    producer = Producer(lab.connection.config(transactional_id=f"test/{lab.sink}", transaction_timeout_ms=60_000))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(lab.sink, b"foreign", partition=0)
    producer.flush(30)
    try:
        assert not reader.is_stable(lab.sink, 0, 0)
        report = lab.run(max_attempts=1)
        assert report.complete
        assert len(report.entries) == 3
        assert 0 not in {message.partition() for message in lab.read()}, "there it all lies behind the open one"
        producer.commit_transaction(30)
        wait_for(lambda: reader.is_stable(lab.sink, 0, 0))
        assert len(lab.read()) == 31
    finally:
        reader.close()


def test_a_sink_that_holds_foreign_records_is_refused_for_one_partition_too(lab: Lab) -> None:
    lab.fill(30)
    producer = Producer(lab.connection.config())
    producer.produce(lab.sink, b"25", b"5", 0)
    producer.flush()
    for chosen in (None, [0]):
        with pytest.raises(EosError, match="The ledger is empty, but the sink is not"):
            lab.run(partitions=chosen)
    assert len(lab.read()) == 1


@pytest.mark.parametrize(
    ("look", "theirs"),
    [("late_geneses", [0]), ("check_sinks", [1])],
    ids=["provenance", "sink"],
)
def test_a_run_that_planned_before_the_first_commit_of_another_goes_on(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, look: str, theirs: list[int]
) -> None:
    """The other one commits just before the look at a topic that was empty when the ledger was."""
    lab = make_lab(partitions=2)
    lab.fill(40)
    looks = getattr(preflight, look)

    def late(*asked: Any) -> Any:
        monkeypatch.setattr(preflight, look, looks)
        assert lab.run(partitions=theirs).complete
        return looks(*asked)

    monkeypatch.setattr(preflight, look, late)
    assert lab.run(partitions=[0]).complete
    assert lab.run().complete
    assert sorted(int(message.key() or 0) for message in lab.read()) == list(range(40))


def test_two_runs_may_let_the_ledger_grow(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2).name
    for _ in range(2):
        grow(connection, topic, 4)
    assert len(connection.partitions(topic)) == 4


@pytest.mark.parametrize("which", ["source", "sink", "ledger"])
def test_a_topic_deleted_and_created_again_is_refused(lab: Lab, which: str) -> None:
    """F18."""
    lab.fill(300)
    lab.run()
    names = lab.pipeline.names()
    topic = {"source": lab.source, "sink": lab.sink, "ledger": names.ledger}[which]
    lab.connection.admin.delete_topics([topic])[topic].result()
    wait_for(lambda: topic not in lab.connection.metadata().topics)
    create_topics([lab.pipeline.source, *lab.pipeline.own_topics()], lab.connection)
    with pytest.raises(EosError, match=r"deleted and created again|but its provenance topic is not|is committed"):
        lab.run()
    if which != "sink":
        lab.assert_squares(range(300))
    if which == "ledger":
        assert "offsets_match_ledger" in lab.broken()
        return
    with pytest.raises(EosError, match="deleted and created again"):
        lab.proof(full=True)


def test_another_source_under_the_same_name_is_refused(lab: Lab, make_topic: MakeTopic) -> None:
    """Its records below the positions of the first one would never be read."""
    lab.fill(30)
    lab.run(partitions=[0, 1])
    other = make_topic(partitions=3)
    fill(lab.connection, other.name, 300)
    another = lab.with_(source=other)
    told = f"began with {lab.source} as its source, and is declared with {other.name}"
    for chosen in (None, [0], [2]):
        with pytest.raises(EosError, match=told):
            another.run(partitions=chosen)
    with pytest.raises(EosError, match=told):
        another.proof()
    assert lab.run().complete
    lab.assert_squares(range(30))


def test_moved_group_offsets_are_refused_and_both_positions_said(make_lab: MakeLab) -> None:
    """F20."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    lab.run(max_records=60)
    move_group_offset(lab, 10)
    report = lab.run()
    assert not report.complete
    assert report.outcomes[-1].outcome == "refused"
    assert "the ledger ends at 60, and the group offset is 10" in report.outcomes[-1].reason
    assert "offsets_match_ledger" in lab.broken()
    lab.assert_squares(range(60))


def move_group_offset(lab: Lab, offset: int) -> None:
    moved = ConsumerGroupTopicPartitions(lab.pipeline.names().group, [TopicPartition(lab.source, 0, offset)])
    for future in lab.connection.admin.alter_consumer_group_offsets([moved]).values():
        future.result()


def test_group_offsets_moved_while_a_transaction_is_open_double_nothing(make_lab: MakeLab, tmp_path: Path) -> None:
    """F20: the admin call wins over the offset in the transaction, and the ledger over both."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    run = Background(lab, Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = stopped(tmp_path)
    move_group_offset(lab, 10)
    os.kill(pid, signal.SIGCONT)
    report = run.result()
    assert not report.complete
    assert report.outcomes[-1].outcome == "refused"
    assert "the ledger ends at 100, and the group offset is 10" in report.outcomes[-1].reason
    lab.assert_squares(range(100))
    assert lab.broken() == {"offsets_match_ledger"}
    move_group_offset(lab, 100)  # the remedy that was said
    lab.fill(50)
    assert lab.run().complete
    lab.assert_squares(range(150))
    assert lab.broken() == set()


def test_a_consumer_in_the_group_is_refused_and_named(lab: Lab) -> None:
    """F20."""
    lab.fill(30)
    intruder = Consumer(lab.connection.config(group_id=lab.pipeline.names().group, client_id="intruder"))
    intruder.subscribe([lab.source])
    wait_for(lambda: intruder.poll(0.1) is not None or intruder.assignment())
    try:
        with pytest.raises(EosError, match=r"1 active member\(s\): intruder"):
            lab.run()
    finally:
        intruder.close()
    assert lab.read() == []
