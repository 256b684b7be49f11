"""Where partitions begin and end, asked until the cluster has settled."""

from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from eos_assets.kafka.connection import Connection, ask

TRY_SECONDS = 2.0


@dataclass(frozen=True)
class Bounds:
    """One partition: its log start, its last stable offset and its high watermark.

    Behind the last stable offset nothing is decided yet: the first open transaction begins there.
    """

    start: int
    stable: int
    high: int


def bounds(connection: Connection, topic: str, partitions: list[int] | None = None) -> dict[int, Bounds]:
    """The bounds of these partitions, or of all. A consumer finds new leaders by itself, which a long-lived admin
    client does not, and for a read_committed one the high watermark is the last stable offset."""
    chosen = connection.partitions(topic) if partitions is None else partitions
    committed = ends(connection, topic, chosen, "read_committed")
    uncommitted = ends(connection, topic, chosen, "read_uncommitted")
    return {p: Bounds(committed[p][0], committed[p][1], max(committed[p][1], uncommitted[p][1])) for p in chosen}


def stable_ends(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    return {p: end for p, (_, end) in ends(connection, topic, partitions, "read_committed").items()}


def ends(connection: Connection, topic: str, partitions: list[int], isolation: str) -> dict[int, tuple[int, int]]:
    """Log start and end of each partition, as a reader of this isolation sees them."""
    consumer = Consumer(connection.config(group_id="eos-reader", isolation_level=isolation, enable_auto_commit=False))
    try:
        return {p: ask(lambda p=p: watermarks(consumer, topic, p)) for p in partitions}  # type: ignore[misc]
    finally:
        consumer.close()


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TRY_SECONDS)
