"""Up to where a pipeline was proven: the offsets of a consumer group, so Kafka's own tools show what is not proven yet.

The group has read all that a proof looked at: the source up to the position, and ledger, provenance, sinks and dead
letters up to their ends. When its offsets expire, after idle days, the next proof looks at everything again.
"""

from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from eos_assets.declare.names import Names
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.retries import retry_transient

PATIENCE_SECONDS = 30
#: Topic and partition → offset.
Offsets = dict[tuple[str, int], int]


def load(connection: Connection, names: Names, places: Iterable[tuple[str, int]]) -> Offsets:
    """What was proven of these topics and partitions; nothing for those that no proof has seen."""
    wanted = [TopicPartition(topic, partition) for topic, partition in places]
    consumer = Consumer(connection.config(group_id=names.proofs))
    try:
        found = retry_transient(lambda: consumer.committed(wanted, timeout=PATIENCE_SECONDS))
    finally:
        consumer.close()
    return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}


def store(connection: Connection, names: Names, proven: Offsets) -> None:
    """The next proof begins here."""
    at = [TopicPartition(topic, partition, offset) for (topic, partition), offset in proven.items()]
    consumer = Consumer(connection.config(group_id=names.proofs))
    try:
        retry_transient(lambda: consumer.commit(offsets=at, asynchronous=False))
    finally:
        consumer.close()
