"""Reading short ranges, and several partitions at once."""

import itertools
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from eos_assets import deadlines
from eos_assets.experiment.fill import fill
from eos_assets.kafka import reader
from eos_assets.kafka.connection import Connection
from eos_assets_tests.kafka.reading import read_values
from eos_assets_tests.plugin import MakeTopic


def test_reading_a_range_fails_when_nothing_arrives_and_not_after_a_fixed_time(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This clock advances a second whenever it is read, so that the whole range takes longer than the timeout."""
    topic = make_topic(partitions=1).name
    fill(connection, topic, 200)
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    consumer = reader.open_consumer(connection)
    try:
        assert len(reader.read_range(consumer, topic, 0, 0, 200)) == 200
        with pytest.raises(
            reader.PartitionUnreadable, match="could not be read to offset 201: nothing arrived from offset 200 on"
        ):
            reader.read_range(consumer, topic, 0, 150, 201)
    finally:
        consumer.close()


def test_one_consumer_reads_several_partitions_each_in_order(connection: Connection, make_topic: MakeTopic) -> None:
    full, empty = make_topic(partitions=3), make_topic(partitions=1)
    fill(connection, full.name, 3000)
    plain = read_values(connection.bootstrap_servers, full.name)
    starts = {(full.name, 0): 0, (full.name, 1): 10, (full.name, 2): len(plain[2]), (empty.name, 0): 0}
    values: dict[tuple[str | None, int | None], list[bytes | None]] = {}
    for message in reader.read_partitions(connection, starts):
        values.setdefault((message.topic(), message.partition()), []).append(message.value())
    assert values == {(full.name, 0): plain[0], (full.name, 1): plain[1][10:]}
    few = [(m.partition(), m.offset()) for m in reader.read_partitions(connection, starts, limit=2)]
    assert sorted(few) == [(0, 0), (0, 1), (1, 10), (1, 11)]
    assert [m.offset() for m in reader.read_partition(connection, full.name, 1, 5, 8)] == [5, 6, 7]
    assert [*reader.read_partitions(connection, {})] == []


def test_a_partition_is_not_read_after_its_end(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a partition that grows faster than it is read would hide one that returns nothing."""
    topic = make_topic(partitions=2).name
    fill(connection, topic, 1000)
    consumer = reader.open_consumer(connection)
    monkeypatch.setattr(reader, "open_consumer", lambda *_: consumer)
    reading = reader.read_partitions(connection, {(topic, 0): 0, (topic, 1): 0}, limit=1)
    first, second = next(reading), next(reading)
    assert {first.partition(), second.partition()} == {0, 1}
    assert consumer.assignment() == []
    assert [*reading] == []


def test_aborted_and_open_transactions_are_skipped_immediately(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3).name
    producer = Producer(connection.config(transactional_id=f"test/{topic}", transaction_timeout_ms=60_000))
    producer.init_transactions(30)
    for partition, ends in ((0, producer.commit_transaction), (1, producer.abort_transaction), (2, None)):
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=partition)
        producer.flush(30)
        if ends is not None:
            ends(30)
    everywhere = {(topic, partition): 0 for partition in range(3)}
    assert [(m.partition(), m.offset()) for m in reader.read_partitions(connection, everywhere)] == [(0, 0)]
    uncommitted = reader.read_partitions(connection, everywhere, isolation="read_uncommitted")
    assert sorted((m.partition(), m.offset()) for m in uncommitted) == [(0, 0), (1, 0), (2, 0)]
    producer.abort_transaction(30)
