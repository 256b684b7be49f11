"""Creates topics as declared, and compares existing ones with their declaration without altering them."""

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata, ConfigEntry, ConfigResource, NewTopic, ResourceType

from eos_assets.deadlines import poll_until
from eos_assets.declare.topic import IN_SYNC, REPLICAS, Topic
from eos_assets.errors import EosError
from eos_assets.kafka.auth_errors import denied_resource
from eos_assets.kafka.connection import Connection

CREATE_SECONDS = 30
POLL_SECONDS = 0.1
#: A random broker answers each request; after this number of requests per broker, almost certainly all have answered.
REQUESTS_PER_BROKER = 5


@dataclass(frozen=True)
class Difference:
    """One setting of a topic that differs from its declaration."""

    setting: str
    actual: str | None
    declared: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.actual}, declared {self.declared}"


@dataclass(frozen=True)
class TopicReport:
    """The outcome for one declared topic: created, present, missing or different, with all differences."""

    topic: Topic
    outcome: str
    differences: tuple[Difference, ...] = ()


def create_topics(topics: Iterable[Topic], connection: Connection) -> list[TopicReport]:
    """Create the missing topics. An existing topic that differs is reported and not changed."""
    reports = compare_topics(topics, connection)
    missing = [report.topic for report in reports if report.outcome == "missing"]
    if not missing:
        return reports
    metadata = connection.metadata()
    brokers, live = known_brokers(metadata), len(metadata.brokers)
    for topic in missing:
        refuse_impossible(topic, brokers)
        if connection.production:
            refuse_fragile(topic, brokers, live)
    created = {topic.name for topic in missing if create(topic, brokers, connection)}
    await_visible({topic.name for topic in missing}, connection)
    created_by_others = compare_topics([topic for topic in missing if topic.name not in created], connection)
    created_here = [TopicReport(topic, "created") for topic in missing if topic.name in created]
    latest = {report.topic.name: report for report in (*created_here, *created_by_others)}
    return [latest.get(report.topic.name, report) for report in reports]


def known_brokers(metadata: ClusterMetadata) -> int:
    """The number of brokers of the cluster. Brokers that are down are still listed as replicas."""
    partitions = (p for topic in metadata.topics.values() for p in topic.partitions.values())
    return len(set(metadata.brokers).union(*(p.replicas for p in partitions)))


def refuse_impossible(topic: Topic, brokers: int) -> None:
    """Refuse a topic that this number of brokers cannot hold, or that could never be written to."""
    replicas, in_sync = topic.replicas(brokers), int(topic.config(brokers)["min.insync.replicas"])
    if replicas > brokers:
        raise EosError(
            f"Topic {topic.name} declares {replicas} replicas, but the cluster has {brokers} broker(s).",
            "Start more brokers (`eos up --brokers 3`), or declare fewer replicas.",
        )
    if in_sync > replicas:
        raise EosError(
            f"Topic {topic.name} declares min_insync_replicas={in_sync}, but would have {replicas} replica(s), so "
            "that nothing could be written to it.",
            f"Declare at most {replicas} for min_insync_replicas, or start more brokers (`eos up --brokers 3`).",
        )


def refuse_fragile(topic: Topic, brokers: int, live: int) -> None:
    """Refuse a topic that may lose acknowledged records, for the production profile."""
    replicas, in_sync = topic.replicas(brokers), int(topic.config(brokers)["min.insync.replicas"])
    problem = None
    if live < REPLICAS:
        problem = f"{live} live broker(s), not {REPLICAS}"
    elif replicas < REPLICAS:
        problem = f"replication={replicas}, not {REPLICAS}"
    elif in_sync < IN_SYNC:
        problem = f"min_insync_replicas={in_sync}, not {IN_SYNC}"
    if problem:
        raise EosError(
            f"Topic {topic.name} is not created: EOS_PROFILE=production, and {problem}.",
            f"Declare {REPLICAS} replicas and min ISR {IN_SYNC}, and start all brokers; or use EOS_PROFILE=dev.",
        )


def create(topic: Topic, brokers: int, connection: Connection) -> bool:
    """Create one topic. Returns False if another client created it first."""
    new = NewTopic(topic.name, topic.partitions, topic.replicas(brokers), config=topic.config(brokers))
    future = connection.admin.create_topics([new], operation_timeout=CREATE_SECONDS)[topic.name]
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise creation_error(topic, brokers, error.args[0], connection) from error
    return True


def creation_error(topic: Topic, brokers: int, error: KafkaError, connection: Connection) -> EosError:
    """The error for the user if a topic was not created."""
    if denied_resource(error):
        return EosError(
            f"{connection.security.principal} lacks Create on topic {topic.name}.",
            f"Grant what `eos acls PIPELINE --creation --principal {connection.security.principal}` prints.",
        )
    live = len(connection.metadata().brokers)
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR and live < brokers:
        return EosError(
            f"Topic {topic.name} needs {topic.replicas(brokers)} replicas, but {live} of {brokers} brokers are up.",
            "Start the brokers that are down, then create the topic again.",
        )
    return EosError(
        f"Topic {topic.name} could not be created: {error.str().rstrip('.')}.", "Check its declaration and the brokers."
    )


def await_visible(names: set[str], connection: Connection) -> None:
    """Wait until every partition of these topics has a leader, because creation is asynchronous.

    Brokers learn of a topic one after another, and a request may go to any of them, so all must know it.
    """
    brokers = len(connection.metadata().brokers)
    requests = REQUESTS_PER_BROKER * brokers if brokers > 1 else 1

    def have_leaders() -> bool:
        topics = connection.admin.list_topics(timeout=CREATE_SECONDS).topics
        return all(name in topics and all(p.leader >= 0 for p in topics[name].partitions.values()) for name in names)

    if not poll_until(lambda: all(have_leaders() for _ in range(requests)), CREATE_SECONDS, POLL_SECONDS):
        raise EosError(
            f"The topics {', '.join(sorted(names))} have no leader after {CREATE_SECONDS} s.",
            "Check the brokers with `eos doctor`.",
        )


def await_partitions(topic: str, count: int, connection: Connection) -> bool:
    """Wait until the brokers report this number of partitions, later than the controller. Return whether they do."""
    return poll_until(lambda: len(connection.partitions(topic)) >= count, CREATE_SECONDS, POLL_SECONDS)


def is_compacted(topic: str, connection: Connection) -> bool:
    """Whether an existing topic may lose records to later ones with the same key."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    settings: dict[str, ConfigEntry] = connection.admin.describe_configs([resource])[resource].result()
    return "compact" in str(settings["cleanup.policy"].value)


def compare_topics(topics: Iterable[Topic], connection: Connection) -> list[TopicReport]:
    """Compare each declaration with the cluster. Nothing is written."""
    topics = list(topics)
    metadata = connection.metadata()
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics if topic.name in metadata.topics]
    futures = connection.admin.describe_configs(resources) if resources else {}
    settings: dict[str, dict[str, ConfigEntry]] = {
        resource.name: future.result() for resource, future in futures.items()
    }
    return [compare_topic(topic, settings.get(topic.name), metadata) for topic in topics]


def compare_topic(topic: Topic, settings: dict[str, ConfigEntry] | None, metadata: ClusterMetadata) -> TopicReport:
    if settings is None:
        return TopicReport(topic, "missing")
    partitions = metadata.topics[topic.name].partitions
    actual = {"partitions": str(len(partitions)), "replication": str(len(partitions[0].replicas))}
    actual |= {name: str(entry.value) for name, entry in settings.items()}
    # Brokers that are down count, too: they do not change the declaration.
    declared = {"partitions": str(topic.partitions), **topic.config(known_brokers(metadata))}
    if topic.replication is not None:
        declared["replication"] = str(topic.replication)
    differences = tuple(
        Difference(name, actual.get(name), value) for name, value in declared.items() if actual.get(name) != value
    )
    return TopicReport(topic, "different" if differences else "present", differences)
