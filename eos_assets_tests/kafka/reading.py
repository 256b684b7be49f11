"""A plain client that shares no code with the project and reads what a read_committed consumer sees."""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition


class Record(NamedTuple):
    """One record as any client reads it."""

    offset: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]


def records_of(batches: Iterable[pa.RecordBatch]) -> list[Record]:
    """The records of Arrow batches."""
    return [
        Record(
            row["offset"],
            row["key"],
            row["value"],
            row["timestamp"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for batch in batches
        for row in batch.to_pylist()
    ]


def read_values(bootstrap_servers: str, topic: str, isolation: str = "read_committed") -> dict[int, list[bytes]]:
    """All values of each partition, in order; keys must be the same."""
    pairs_of = read_pairs(bootstrap_servers, topic, isolation)
    assert all(key == value for pairs in pairs_of.values() for key, value in pairs)
    return {partition: [value for _, value in pairs] for partition, pairs in pairs_of.items()}


def read_pairs(
    bootstrap_servers: str, topic: str, isolation: str = "read_committed"
) -> dict[int, list[tuple[bytes, bytes]]]:
    """All keys and values of each partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "plain-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    pairs: dict[int, list[tuple[bytes, bytes]]] = {p: [] for p in partitions}
    ended: set[int] = set()
    while len(ended) < len(partitions):
        for message in consumer.consume(10_000, timeout=0.1):
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is None:
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                pairs[partition].append((key, value))
            else:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(partition)
    consumer.close()
    return pairs


def read_integers(bootstrap_servers: str, topic: str) -> list[int]:
    """All integers of a topic, sorted; fails if a partition is not in order."""
    partitions = [[int(v) for v in values] for values in read_values(bootstrap_servers, topic).values()]
    for partition, numbers in enumerate(partitions):
        assert numbers == sorted(numbers), f"partition {partition} is not in order"
    return sorted(n for numbers in partitions for n in numbers)
