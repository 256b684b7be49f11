"""The producer of Arrow columns writes them byte for byte, and reports their offsets."""

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.producer import NotQueued, Producer, QueuedBytes, message_array
from eos_assets_tests.plugin import MakeTopic


def read(connection: Connection, topic: str, count: int) -> list[tuple[int | None, bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": connection.bootstrap_servers, "group.id": "plain", "log_level": 2})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = [message for message in consumer.consume(count, timeout=30) if message.error() is None]
    consumer.close()
    return [(message.offset(), message.key(), message.value()) for message in messages]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_nulls_empty_values_and_slices_keep_their_bytes(
    connection: Connection, make_topic: MakeTopic, kind: pa.DataType
) -> None:
    topic = make_topic(partitions=1).name
    keys = pa.array([b"left out", b"a", None, b"", b"\x00\xff"], kind).slice(1)
    values = pa.array([b"left out", None, b"v", b"", b"\x00" * 10], kind).slice(1)
    producer = Producer(connection.config())
    producer.produce_batch(topic, 0, message_array(keys, values))
    producer.produce(topic, 0, b"k", b"", [("h", None), ("g", b"")])
    assert producer.flush(30) == 0
    delivered = [offset for offsets in producer.delivered[topic, 0] for offset in offsets]
    producer.close()
    rows = read(connection, topic, 5)
    assert [row[1:] for row in rows] == [
        (b"a", None),
        (None, b"v"),
        (b"", b""),
        (b"\x00\xff", b"\x00" * 10),
        (b"k", b""),
    ]
    assert [row[0] for row in rows] == delivered


def test_a_record_above_the_limit_is_refused_by_its_index(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1).name
    producer = Producer(connection.config(message_max_bytes=2000))
    values = pa.array([b"small", b"x" * 5000], pa.binary())
    with pytest.raises(NotQueued) as refused:
        producer.produce_batch(topic, 0, message_array(values, values))
    assert refused.value.index == 1
    producer.flush(30)
    producer.close()


def test_records_that_are_not_delivered_are_named_as_failed(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1).name
    producer = Producer(connection.config(transactional_id=topic))
    producer.init_transactions(30)
    producer.begin_transaction()
    values = pa.array([b"1"] * 1000, pa.binary())
    producer.produce_batch(topic, 0, message_array(values, values))
    producer.abort_transaction(30)
    failed = sum(1 for _ in producer.failed)
    delivered = sum(map(len, producer.delivered[topic, 0]))
    producer.close()
    assert failed == 1 or delivered == 1000


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(KafkaException, match=r"no\.such\.setting"):
        Producer({"no.such.setting": 1})


def test_the_queued_bytes_are_those_of_the_newest_batches_that_may_still_wait() -> None:
    queued = QueuedBytes()
    for rows, size in ((10, 100), (5, 1000), (1, 7)):
        queued.add(rows, size)
    assert queued.count(waiting=16) == 1107
    assert queued.count(waiting=7) == 1107, "some of the first batch may still wait"
    assert queued.count(waiting=6) == 1007
    assert queued.count(waiting=1) == 7
    assert queued.count(waiting=0) == 7
