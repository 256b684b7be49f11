"""Which broker of a cluster has which part, and whether the others are in sync with it."""

from eos_assets.kafka.connection import Connection
from eos_assets_tests.waiting import wait_for


def leader(connection: Connection, topic: str, partition: int = 0) -> int:
    """The broker that leads a partition."""
    return int(connection.metadata().topics[topic].partitions[partition].leader)


def transaction_coordinator(connection: Connection, transactional_id: str) -> int:
    """The broker that decides the transactions of an id."""
    return coordinator(connection, "__transaction_state", transactional_id)


def group_coordinator(connection: Connection, group: str) -> int:
    """The broker that keeps the offsets of a group."""
    return coordinator(connection, "__consumer_offsets", group)


def coordinator(connection: Connection, topic: str, name: str) -> int:
    """Kafka takes the leader of the partition to which the name hashes, by Java's hash of a text."""
    code = 0
    for character in name:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return leader(connection, topic, (code & 0x7FFFFFFF) % len(connection.metadata().topics[topic].partitions))


def await_in_sync(connection: Connection) -> None:
    """Wait until every partition of every topic has a leader and all its replicas in sync."""

    def in_sync() -> bool:
        partitions = [p for topic in connection.metadata().topics.values() for p in topic.partitions.values()]
        return all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in partitions)

    wait_for(in_sync, pause=0.1)
