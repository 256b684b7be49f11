"""Topics as they are declared, compared with topics as they are: created when missing, never altered."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigEntry, ConfigResource, NewTopic, ResourceType

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection

FOREVER = -1
CREATE_SECONDS = 30


@dataclass(frozen=True)
class Topic:
    """One declaration of a topic.

    Undeclared replication is what survives the loss of a broker where there are three (3 replicas, 2 in sync),
    and 1 on a single development broker. Undeclared retention is the broker's own.
    """

    name: str
    partitions: int = 3
    replication: int | None = None
    min_insync_replicas: int | None = None
    retention_ms: int | None = None
    compacted: bool = False
    max_message_bytes: int | None = None
    #: How long a compacted topic keeps its tombstones: a reader that takes longer might miss a deletion.
    delete_retention_ms: int | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", self.name) or self.name in (".", ".."):
            raise EosError(
                f"{self.name!r} is no topic name.", "Use letters, digits, '.', '_' and '-', at most 249 of them."
            )
        for what in ("partitions", "replication", "min_insync_replicas"):
            value = getattr(self, what)
            if value is not None and value < 1:
                raise EosError(f"Topic {self.name} declares {what}={value}.", f"Declare at least 1 for {what}.")

    def config(self, brokers: int) -> dict[str, str]:
        """The topic's settings on a cluster of that many brokers."""
        replication = self.replicas(brokers)
        config = {
            "min.insync.replicas": str(self.min_insync_replicas or max(1, replication - 1)),
            "cleanup.policy": "compact" if self.compacted else "delete",
        }
        if self.retention_ms is not None:
            config["retention.ms"] = str(self.retention_ms)
        if self.retention_ms == FOREVER:
            config["retention.bytes"] = str(FOREVER)
        if self.max_message_bytes is not None:
            config["max.message.bytes"] = str(self.max_message_bytes)
        if self.delete_retention_ms is not None:
            config["delete.retention.ms"] = str(self.delete_retention_ms)
        return config

    def replicas(self, brokers: int) -> int:
        return self.replication or min(3, brokers)


@dataclass(frozen=True)
class Difference:
    """One setting of a topic that is not as declared."""

    setting: str
    found: str | None
    declared: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.found}, declared {self.declared}"


@dataclass(frozen=True)
class TopicReport:
    """What became of one declaration: created, present, missing, or different with every difference named."""

    topic: Topic
    outcome: str
    differences: tuple[Difference, ...] = ()


def create_topics(topics: Iterable[Topic], connection: Connection) -> list[TopicReport]:
    """Creates the missing topics; an existing one that differs is reported and left as it is."""
    reports = compare_topics(topics, connection)
    missing = [report.topic for report in reports if report.outcome == "missing"]
    brokers = len(connection.metadata().brokers)
    for topic in missing:
        if topic.replicas(brokers) > brokers:
            raise EosError(
                f"Topic {topic.name} declares {topic.replication} replicas; the cluster has {brokers} broker(s).",
                "Start more brokers (`eos up --brokers 3`), or declare fewer replicas.",
            )
    created = {topic.name for topic in missing if create(topic, brokers, connection)}
    await_visible(created, connection)
    return [TopicReport(r.topic, "created") if r.topic.name in created else r for r in reports]


def create(topic: Topic, brokers: int, connection: Connection) -> bool:
    """True when we created it, False when somebody else was faster."""
    new = NewTopic(topic.name, topic.partitions, topic.replicas(brokers), config=topic.config(brokers))
    future = connection.admin.create_topics([new], operation_timeout=CREATE_SECONDS)[topic.name]
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise EosError(
            f"Topic {topic.name} could not be created: {error.args[0].str().rstrip('.')}.",
            "Check its declaration and your permissions on the cluster.",
        ) from error
    return True


def await_visible(names: set[str], connection: Connection) -> None:
    """Creation is asynchronous: returns once every partition has a leader."""
    admin = connection.admin
    for _ in range(CREATE_SECONDS * 10):
        known = admin.list_topics(timeout=CREATE_SECONDS).topics
        if all(name in known and all(p.leader >= 0 for p in known[name].partitions.values()) for name in names):
            return
        admin.poll(0.1)
    raise EosError(f"The topics {', '.join(sorted(names))} have no leader yet.", "Check the brokers with `eos doctor`.")


def is_compacted(topic: str, connection: Connection) -> bool:
    """Whether records of an existing topic may be replaced by later ones of the same key."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    settings: dict[str, ConfigEntry] = connection.admin.describe_configs([resource])[resource].result()
    return "compact" in str(settings["cleanup.policy"].value)


def compare_topics(topics: Iterable[Topic], connection: Connection) -> list[TopicReport]:
    """Each declaration against the cluster; writes nothing."""
    topics = list(topics)
    metadata = connection.metadata()
    present = [topic for topic in topics if topic.name in metadata.topics]
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in present]
    futures = connection.admin.describe_configs(resources) if resources else {}
    actual: dict[str, dict[str, ConfigEntry]] = {resource.name: future.result() for resource, future in futures.items()}
    reports = []
    for topic in topics:
        if topic.name not in actual:
            reports.append(TopicReport(topic, "missing"))
            continue
        partitions = metadata.topics[topic.name].partitions
        replicas = len(partitions[0].replicas)
        found = {"partitions": str(len(partitions)), "replication": str(replicas)}
        found |= {name: str(entry.value) for name, entry in actual[topic.name].items()}
        brokers = max(len(metadata.brokers), replicas)  # a broker that is away changes no declaration
        wanted = {"partitions": str(topic.partitions), **topic.config(brokers)}
        if topic.replication is not None:
            wanted["replication"] = str(topic.replication)
        differences = tuple(
            Difference(name, found.get(name), value) for name, value in wanted.items() if found.get(name) != value
        )
        reports.append(TopicReport(topic, "different" if differences else "present", differences))
    return reports
