"""Kafka partitions as Dagster partitions: they follow the topic, in numeric order."""

import dagster as dg

from eos_assets.kafka.connection import Connection


def topic_partitions(topic: str) -> dg.DynamicPartitionsDefinition:
    """One key per Kafka partition of the source topic. Ranges follow the order in which keys were added."""
    return dg.DynamicPartitionsDefinition(name=f"{topic}_partitions")


def range_tags(first: int, last: int) -> dict[str, str]:
    """The tags of a run over the partitions from the first to the last one, both included."""
    return {"dagster/asset_partition_range_start": str(first), "dagster/asset_partition_range_end": str(last)}


def known_keys(instance: dg.DagsterInstance, topic: str) -> list[str]:
    return list(instance.get_dynamic_partitions(f"{topic}_partitions"))


def missing_keys(instance: dg.DagsterInstance, topic: str, connection: Connection) -> list[str]:
    """The partitions that the topic has and Dagster does not know yet, in numeric order."""
    known = set(known_keys(instance, topic))
    return [str(p) for p in sorted(connection.partitions(topic)) if str(p) not in known]


def add_missing(instance: dg.DagsterInstance, topic: str, connection: Connection) -> list[str]:
    missing = missing_keys(instance, topic, connection)
    if missing:
        instance.add_dynamic_partitions(f"{topic}_partitions", missing)
    return missing
