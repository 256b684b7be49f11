"""The observation of a sink by a plain consumer: every kind of harm is counted, and nothing else."""

import uuid
from collections.abc import Iterable

from confluent_kafka import Consumer, Producer, TopicPartition

from eos_assets.experiment.fill import fill
from eos_assets.experiment.observation import SinkObservation, observe_sink
from eos_assets.kafka.connection import Connection
from eos_assets_tests.plugin import MakeTopic


def square(number: int) -> tuple[bytes, bytes]:
    return b"%d" % number, b"%d" % number**2


class Sink:
    """A source of ten integers in one partition, a sink, and a group with a committed offset."""

    def __init__(self, connection: Connection, make_topic: MakeTopic, committed: int) -> None:
        self.connection = connection
        self.source, self.sink = make_topic(partitions=1).name, make_topic(partitions=1).name
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        fill(connection, self.source, 10)
        if committed:
            consumer = Consumer(connection.config(group_id=self.group))
            consumer.commit(offsets=[TopicPartition(self.source, 0, committed)], asynchronous=False)
            consumer.close()

    def write(self, records: Iterable[tuple[bytes, bytes]], commit: bool | None = None) -> None:
        """Write without a transaction, or in one that is committed or aborted."""
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

    def observe(self) -> SinkObservation:
        return observe_sink(self.connection, self.source, self.sink, self.group, 10)


def test_a_sink_that_holds_each_square_once_is_exact(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.write(map(square, range(10)), commit=True)
    observation = sink.observe()
    assert observation == SinkObservation(10, 10, 0, 0, 0, 0, 0, 0)
    assert observation.exact


def test_second_copies_are_duplicates_and_out_of_order(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.write(map(square, [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]))
    observation = sink.observe()
    assert (observation.visible, observation.duplicates, observation.out_of_order, observation.lost) == (14, 4, 2, 0)
    assert not observation.exact


def test_missing_records_are_lost_below_the_committed_offset_and_undelivered_past_it(
    connection: Connection, make_topic: MakeTopic
) -> None:
    sink = Sink(connection, make_topic, committed=6)
    sink.write(map(square, [0, 1, 4, 5]))
    observation = sink.observe()
    assert (observation.lost, observation.undelivered) == (2, 4)
    assert not observation.exact


def test_nothing_committed_is_nothing_lost(connection: Connection, make_topic: MakeTopic) -> None:
    observation = Sink(connection, make_topic, committed=0).observe()
    assert (observation.visible, observation.lost, observation.undelivered) == (0, 0, 10)
    assert observation.exact


def test_aborted_records_are_counted_and_not_visible(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.write(map(square, range(4)), commit=False)
    sink.write(map(square, range(10)), commit=True)
    observation = sink.observe()
    assert (observation.visible, observation.aborted, observation.duplicates) == (10, 4, 0)


def test_a_value_that_is_not_the_square_of_its_key_is_wrong(connection: Connection, make_topic: MakeTopic) -> None:
    sink = Sink(connection, make_topic, committed=10)
    sink.write(
        [*map(square, range(10)), (b"3", b"10"), (b"4", b"25"), square(10), (b"5", b"not a number"), (b"02", b"4")]
    )
    observation = sink.observe()
    assert (observation.wrong, observation.duplicates, observation.lost) == (5, 0, 0)
