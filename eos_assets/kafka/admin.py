"""Topics as they are declared, compared with topics as they are: created when missing, never altered."""

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata, ConfigEntry, ConfigResource, NewTopic, ResourceType

from eos_assets.declare.topic import IN_SYNC, REPLICAS, Topic
from eos_assets.errors import EosError
from eos_assets.kafka.auth_errors import denial
from eos_assets.kafka.connection import Connection

CREATE_SECONDS = 30


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
    others = compare_topics([topic for topic in missing if topic.name not in created], connection)
    made = [TopicReport(topic, "created") for topic in missing if topic.name in created]
    now = {report.topic.name: report for report in (*made, *others)}
    return [now.get(report.topic.name, report) for report in reports]


def known_brokers(metadata: ClusterMetadata) -> int:
    """How many brokers the cluster has: those that are away are still named as replicas."""
    partitions = (p for topic in metadata.topics.values() for p in topic.partitions.values())
    return len(set(metadata.brokers).union(*(p.replicas for p in partitions)))


def refuse_impossible(topic: Topic, brokers: int) -> None:
    """What no cluster of that many brokers can hold, or could never write to."""
    replicas, in_sync = topic.replicas(brokers), int(topic.config(brokers)["min.insync.replicas"])
    if replicas > brokers:
        raise EosError(
            f"Topic {topic.name} declares {replicas} replicas; the cluster has {brokers} broker(s).",
            "Start more brokers (`eos up --brokers 3`), or declare fewer replicas.",
        )
    if in_sync > replicas:
        raise EosError(
            f"Topic {topic.name} declares min_insync_replicas={in_sync}, but would have {replicas} replica(s): nothing "
            "could be written to it.",
            f"Declare at most {replicas} for min_insync_replicas, or start more brokers (`eos up --brokers 3`).",
        )


def refuse_fragile(topic: Topic, brokers: int, live: int) -> None:
    """What a production profile does not create: a topic that may lose what was acknowledged."""
    replicas, in_sync = topic.replicas(brokers), int(topic.config(brokers)["min.insync.replicas"])
    told = None
    if live < REPLICAS:
        told = f"{live} live broker(s), not {REPLICAS}"
    elif replicas < REPLICAS:
        told = f"replication={replicas}, not {REPLICAS}"
    elif in_sync < IN_SYNC:
        told = f"min_insync_replicas={in_sync}, not {IN_SYNC}"
    if told:
        raise EosError(
            f"Topic {topic.name} is not created: EOS_PROFILE=production, and {told}.",
            f"Declare {REPLICAS} replicas and min ISR {IN_SYNC}, and have all brokers up; or use EOS_PROFILE=dev.",
        )


def create(topic: Topic, brokers: int, connection: Connection) -> bool:
    """True when we created it, False when somebody else was faster."""
    new = NewTopic(topic.name, topic.partitions, topic.replicas(brokers), config=topic.config(brokers))
    future = connection.admin.create_topics([new], operation_timeout=CREATE_SECONDS)[topic.name]
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise why_not(topic, brokers, error.args[0], connection) from error
    return True


def why_not(topic: Topic, brokers: int, error: KafkaError, connection: Connection) -> EosError:
    if denial(error):
        return EosError(
            f"{connection.security.principal} lacks Create on topic {topic.name}.",
            f"`eos acls PIPELINE --creation --principal {connection.security.principal}` prints what grants it.",
        )
    live = len(connection.metadata().brokers)
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR and live < brokers:
        return EosError(
            f"Topic {topic.name} wants {topic.replicas(brokers)} replicas, and only {live} of {brokers} brokers live.",
            "Start the brokers that are down, then create it again.",
        )
    return EosError(
        f"Topic {topic.name} could not be created: {error.str().rstrip('.')}.", "Check its declaration and the brokers."
    )


def await_visible(names: set[str], connection: Connection) -> None:
    """Creation is asynchronous: returns once every partition has a leader."""
    admin = connection.admin
    for _ in range(CREATE_SECONDS * 10):
        known = admin.list_topics(timeout=CREATE_SECONDS).topics
        if all(name in known and all(p.leader >= 0 for p in known[name].partitions.values()) for name in names):
            return
        admin.poll(0.1)
    raise EosError(f"The topics {', '.join(sorted(names))} have no leader yet.", "Check the brokers with `eos doctor`.")


def has_partitions(topic: str, count: int, connection: Connection) -> bool:
    """Whether a topic has so many partitions, or gets them now: brokers hear of growth later than their controller."""
    for _ in range(CREATE_SECONDS * 10):
        if len(connection.partitions(topic)) >= count:
            return True
        connection.admin.poll(0.1)
    return False


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
    brokers = known_brokers(metadata)  # one that is away changes no declaration
    reports = []
    for topic in topics:
        if topic.name not in actual:
            reports.append(TopicReport(topic, "missing"))
            continue
        partitions = metadata.topics[topic.name].partitions
        replicas = len(partitions[0].replicas)
        found = {"partitions": str(len(partitions)), "replication": str(replicas)}
        found |= {name: str(entry.value) for name, entry in actual[topic.name].items()}
        wanted = {"partitions": str(topic.partitions), **topic.config(brokers)}
        if topic.replication is not None:
            wanted["replication"] = str(topic.replication)
        differences = tuple(
            Difference(name, found.get(name), value) for name, value in wanted.items() if found.get(name) != value
        )
        reports.append(TopicReport(topic, "different" if differences else "present", differences))
    return reports
