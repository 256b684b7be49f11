"""Kafka partitions as Dagster partitions, which follow the topic in numeric order."""

import dagster as dg

from eos_assets.kafka.connection import Connection


def topic_partitions(topic: str) -> dg.DynamicPartitionsDefinition:
    """One key per partition of the source topic. A range of keys follows the order in which they were added."""
    return dg.DynamicPartitionsDefinition(name=f"{topic}_partitions")


def range_tags(first: int, last: int) -> dict[str, str]:
    """The tags of a run over the partitions from the first to the last one, both included."""
    return {"dagster/asset_partition_range_start": str(first), "dagster/asset_partition_range_end": str(last)}


def known_partitions(instance: dg.DagsterInstance, topic: str) -> list[str]:
    """The partition keys that Dagster has for the topic."""
    return list(instance.get_dynamic_partitions(f"{topic}_partitions"))


def new_partitions(instance: dg.DagsterInstance, topic: str, connection: Connection) -> list[str]:
    """The partitions of the topic that Dagster does not have yet, in numeric order."""
    known = set(known_partitions(instance, topic))
    return [str(p) for p in sorted(connection.partitions(topic)) if str(p) not in known]


def add_new_partitions(instance: dg.DagsterInstance, topic: str, connection: Connection) -> None:
    """Add the partitions of the topic that Dagster does not have yet."""
    if new := new_partitions(instance, topic, connection):
        instance.add_dynamic_partitions(f"{topic}_partitions", new)
