"""Offsets of partitions, asked until the cluster has settled."""

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from eos_assets.kafka.connection import Connection, ask


def stable_ends(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    """The last stable offset of each partition: nothing at or behind it is decided yet."""
    return offsets(connection, topic, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)


def high_watermarks(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    return offsets(connection, topic, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


def log_starts(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    return offsets(connection, topic, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)


def offsets(
    connection: Connection, topic: str, partitions: list[int], which: OffsetSpec, level: IsolationLevel
) -> dict[int, int]:
    """A fresh client for each try: one that remembers the leaders of yesterday is fenced off again and again. While a
    leader is away the answer may be a negative offset and no error at all."""

    def question() -> dict[int, int]:
        admin = AdminClient(connection.config())
        wanted = {TopicPartition(topic, p): which for p in partitions}
        futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=2)
        found = {tp.partition: future.result().offset for tp, future in futures.items()}
        if min(found.values(), default=0) < 0:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return found

    return ask(question) if partitions else {}
