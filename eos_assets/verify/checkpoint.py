"""The checkpoint of the proof: the offsets of a consumer group, up to which everything is proven.

They cover the source up to the position, and ledger, provenance, sinks and dead letters up to their ends. So Kafka's
own tools show what is not proven yet. When the offsets expire, after idle days, the next proof reads everything again.
"""

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from eos_assets.declare.names import Names
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.retries import retry_transient

PATIENCE_SECONDS = 30
#: Topic and partition → offset.
Offsets = dict[tuple[str, int], int]


def load(connection: Connection, names: Names, places: Iterable[tuple[str, int]]) -> Offsets:
    """Read the checkpoint of these topics and partitions; those that no proof has read are absent."""
    return {(entry.topic, entry.partition): entry.offset for entry in read_offsets(connection, names, places)}


def proven_at(connection: Connection, names: Names, places: Iterable[tuple[str, int]]) -> str:
    """When the last proof of these topics and partitions held; empty if the checkpoint has no time."""
    times = (entry.metadata or "" for entry in read_offsets(connection, names, places))
    return max(times, default="").replace("T", " ").replace("Z", " UTC")


def read_offsets(connection: Connection, names: Names, places: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    wanted = [TopicPartition(topic, partition) for topic, partition in places]
    consumer = Consumer(connection.config(group_id=names.proofs))
    try:
        committed = retry_transient(lambda: consumer.committed(wanted, timeout=PATIENCE_SECONDS))
    finally:
        consumer.close()
    return [entry for entry in committed if entry.offset >= 0]


def store(connection: Connection, names: Names, proven: Offsets) -> None:
    """Write the checkpoint, so that the next proof begins there, with the time as the metadata of each offset."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    commit(connection, names, [TopicPartition(*place, offset, now) for place, offset in proven.items()])


def renew(connection: Connection, names: Names, places: Iterable[tuple[str, int]]) -> None:
    """Write the checkpoint again unchanged, so that the brokers do not expire it while nothing is written."""
    commit(connection, names, read_offsets(connection, names, places))


def commit(connection: Connection, names: Names, offsets: list[TopicPartition]) -> None:
    consumer = Consumer(connection.config(group_id=names.proofs))
    try:
        retry_transient(lambda: consumer.commit(offsets=offsets, asynchronous=False))
    finally:
        consumer.close()
