"""The configuration file of a local broker, as Kafka reads it."""

import re
from collections.abc import Mapping
from pathlib import Path


def cluster_properties(brokers: int) -> dict[str, object]:
    """What all brokers of a cluster have in common. Three keep three replicas and acknowledge with two, for the
    transaction and offsets topics, too, so any broker may be killed and nothing acknowledged is lost."""
    replicas, in_sync = (3, 2) if brokers == 3 else (1, 1)
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker may register again only when its old session has expired: 9 s by default.
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
    }


def node_properties(node_id: int, address: str, controller: str, voters: str, data: Path) -> dict[str, object]:
    """What differs from broker to broker."""
    return {
        "node.id": node_id,
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "controller.quorum.voters": voters,
        "log.dirs": data,
    }


def properties_text(properties: Mapping[str, object]) -> str:
    return "".join(f"{name}={escape(str(value))}\n" for name, value in properties.items())


def escape(value: str) -> str:
    """A value for a Java properties file: a backslash is doubled, and everything outside ASCII is escaped."""
    return re.sub(r"[^\x00-\x7f]", utf_16_escape, value.replace("\\", "\\\\"))


def utf_16_escape(character: re.Match[str]) -> str:
    units = character.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
