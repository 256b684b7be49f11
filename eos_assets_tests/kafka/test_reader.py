"""Reading short ranges, and several partitions at once: what is committed, in order, to its end."""

import itertools
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from eos_assets.kafka import reader as tail
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets_tests.kafka.reading import read_values
from eos_assets_tests.plugin import MakeTopic


def test_reading_ends_by_a_standstill_and_not_by_the_clock(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock on which each look takes a second, so that the whole way takes longer than the patience."""
    topic = make_topic(partitions=1).name
    fill(connection, topic, 200)
    monkeypatch.setattr(tail, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    consumer = tail.reader(connection)
    try:
        assert len(tail.records(consumer, topic, 0, 0, 200)) == 200
        with pytest.raises(tail.Unread, match="could not be read to offset 201: it stands still at 200"):
            tail.records(consumer, topic, 0, 150, 201)
    finally:
        consumer.close()


def test_one_consumer_reads_several_partitions_each_in_order(connection: Connection, make_topic: MakeTopic) -> None:
    full, empty = make_topic(partitions=3), make_topic(partitions=1)
    fill(connection, full.name, 3000)
    plain = read_values(connection.bootstrap_servers, full.name)
    starts = {(full.name, 0): 0, (full.name, 1): 10, (full.name, 2): len(plain[2]), (empty.name, 0): 0}
    found: dict[tuple[str | None, int | None], list[bytes | None]] = {}
    for message in tail.streams(connection, starts):
        found.setdefault((message.topic(), message.partition()), []).append(message.value())
    assert found == {(full.name, 0): plain[0], (full.name, 1): plain[1][10:]}
    few = [(m.partition(), m.offset()) for m in tail.streams(connection, starts, limit=2)]
    assert sorted(few) == [(0, 0), (0, 1), (1, 10), (1, 11)]
    assert [m.offset() for m in tail.stream(connection, full.name, 1, 5, 8)] == [5, 6, 7]
    assert [*tail.streams(connection, {})] == []


def test_a_partition_that_was_read_is_not_read_on(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it grew quicker than it is read, nobody would notice that another one gives nothing."""
    topic = make_topic(partitions=2).name
    fill(connection, topic, 1000)
    consumer = tail.reader(connection)
    monkeypatch.setattr(tail, "reader", lambda *_: consumer)
    reading = tail.streams(connection, {(topic, 0): 0, (topic, 1): 0}, limit=1)
    first, second = next(reading), next(reading)
    assert {first.partition(), second.partition()} == {0, 1}
    assert consumer.assignment() == []
    assert [*reading] == []


def test_what_is_aborted_or_open_is_no_record_and_no_standstill(connection: Connection, make_topic: MakeTopic) -> None:
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
    assert [(m.partition(), m.offset()) for m in tail.streams(connection, everywhere)] == [(0, 0)]
    uncommitted = tail.streams(connection, everywhere, isolation="read_uncommitted")
    assert sorted((m.partition(), m.offset()) for m in uncommitted) == [(0, 0), (1, 0), (2, 0)]
    producer.abort_transaction(30)
