"""Where a run goes on: group offsets that are missing, moved, or inside an open transaction."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from eos_assets.declare.options import Batching
from eos_assets.experiment.faults import Faults
from eos_assets.log.reader import CommittedReader, TransactionHangs
from eos_assets.run.plan import make_plan
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import Lab, MakeLab, both_kinds
from eos_assets_tests.waiting import wait_for


@both_kinds
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
    partitions = futures[group].result().topic_partitions
    return [at.offset if at.offset >= 0 else None for at in sorted(partitions, key=lambda at: at.partition)]


def test_an_offset_inside_an_open_transaction_is_awaited(lab: Lab) -> None:
    """It is not "no offset": that would let the ledger alone decide."""
    names = lab.pipeline.names()
    producer = Producer(lab.connection.config(transactional_id=names.transactional_id(0)))
    producer.init_transactions(30)
    producer.begin_transaction()
    member = Consumer(lab.connection.config(group_id=names.group))
    producer.send_offsets_to_transaction([TopicPartition(lab.source, 0, 7)], member.consumer_group_metadata(), 30)
    reader = CommittedReader(lab.connection.config(), names)
    try:
        with pytest.raises(TransactionHangs, match="belongs to a transaction that is still open"):
            reader.group_offset(0, seconds=1)
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(reader.group_offset, 0)
            producer.commit_transaction(30)
            assert asked.result() == 7
    finally:
        reader.close()
        member.close()


def test_the_end_of_a_transaction_is_awaited_in_its_partitions_and_not_for_ever(make_lab: MakeLab) -> None:
    """An open transaction of another producer in a shared sink delays no commit: transactions commit after it."""
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
        assert 0 not in {message.partition() for message in lab.read()}, "all of it is after the open transaction"
        producer.commit_transaction(30)
        wait_for(lambda: reader.is_stable(lab.sink, 0, 0))
        assert len(lab.read()) == 31
    finally:
        reader.close()


@both_kinds
def test_moved_group_offsets_are_refused_and_both_positions_reported(make_lab: MakeLab) -> None:
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


@both_kinds
def test_group_offsets_moved_while_a_transaction_is_open_duplicate_nothing(make_lab: MakeLab, tmp_path: Path) -> None:
    """F20: the admin call wins over the offset in the transaction, and the ledger over both."""
    lab = make_lab(partitions=1)
    lab.fill(100)
    run = Background(lab, Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    move_group_offset(lab, 10)
    os.kill(pid, signal.SIGCONT)
    report = run.result()
    assert not report.complete
    assert report.outcomes[-1].outcome == "refused"
    assert "the ledger ends at 100, and the group offset is 10" in report.outcomes[-1].reason
    lab.assert_squares(range(100))
    assert lab.broken() == {"offsets_match_ledger"}
    move_group_offset(lab, 100)  # the remedy of the error
    lab.fill(50)
    assert lab.run().complete
    lab.assert_squares(range(150))
    assert lab.broken() == set()
