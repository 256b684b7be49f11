"""The account of a sink, by a plain consumer: every kind of harm is counted, and nothing else."""

import uuid
from collections.abc import Iterable

from confluent_kafka import Consumer, Producer, TopicPartition

from eos_assets.experiment.account import Account, account
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets_tests.plugin import MakeTopic


def square(number: int) -> tuple[bytes, bytes]:
    return b"%d" % number, b"%d" % number**2


class Sink:
    """A source of ten integers in one partition, a sink, and a group that has committed some offset."""

    def __init__(self, connection: Connection, make_topic: MakeTopic, committed: int) -> None:
        self.connection = connection
        self.source, self.sink = make_topic(partitions=1).name, make_topic(partitions=1).name
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        fill(connection, self.source, 10)
        if committed:
            consumer = Consumer(connection.config(group_id=self.group))
            consumer.commit(offsets=[TopicPartition(self.source, 0, committed)], asynchronous=False)
            consumer.close()

    def holds(self, records: Iterable[tuple[bytes, bytes]], commit: bool | None = None) -> None:
        """Written plainly, or in a transaction that is committed or aborted."""
        transactional = {} if commit is None else {"transactional_id": uuid.uuid4().hex}
        producer = Producer(self.connection.config(**transactional))
        if commit is not None:
            producer.init_transactions(30)
            producer.begin_transaction()
        for key, value in records:
            producer.produce(self.sink, value, key, 0)
        producer.flush()
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def account(self) -> Account:
        return account(self.connection, self.source, self.sink, self.group, 10)


def test_a_sink_that_holds_each_square_once_is_exact(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.holds(map(square, range(10)), commit=True)
    found = sink.account()
    assert found == Account(10, 10, 0, 0, 0, 0, 0, 0)
    assert found.exact


def test_second_copies_are_duplicates_and_out_of_order(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.holds(map(square, [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]))
    found = sink.account()
    assert (found.visible, found.duplicates, found.out_of_order, found.lost) == (14, 4, 2, 0)
    assert not found.exact


def test_missing_records_are_lost_below_the_committed_offset_and_undelivered_behind_it(
    connection: Connection, make_topic: MakeTopic
) -> None:
    sink = Sink(connection, make_topic, committed=6)
    sink.holds(map(square, [0, 1, 4, 5]))
    found = sink.account()
    assert (found.lost, found.undelivered) == (2, 4)
    assert not found.exact


def test_nothing_committed_is_nothing_lost(connection: Connection, make_topic: MakeTopic) -> None:
    found = Sink(connection, make_topic, committed=0).account()
    assert (found.visible, found.lost, found.undelivered) == (0, 0, 10)
    assert found.exact


def test_aborted_records_are_counted_and_not_visible(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.holds(map(square, range(4)), commit=False)
    sink.holds(map(square, range(10)), commit=True)
    found = sink.account()
    assert (found.visible, found.aborted, found.duplicates) == (10, 4, 0)


def test_what_is_no_square_of_its_key_is_wrong(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.holds([*map(square, range(10)), (b"3", b"10"), (b"4", b"25"), square(10), (b"5", b"no number"), (b"02", b"4")])
    found = sink.account()
    assert (found.wrong, found.duplicates, found.lost) == (5, 0, 0)
