"""Does the principal have every permission that the pipeline needs?

Kafka reports which operations a client is authorized for on topics and groups. It does not for transactional ids, so a
secured run calls `init_transactions` with an id that nothing else uses.
"""

import shlex
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.auth_errors import denied_resource, grant_remedy
from eos_assets.kafka.connection import REQUEST_SECONDS, Connection
from eos_assets.kafka.producer import Producer
from eos_assets.kafka.reader import READER_GROUP
from eos_assets.kafka.retries import is_transient, retry_transient

INIT_SECONDS = 30.0
#: The operations that the brokers report, by the names that Kafka's tools use.
ACL_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}


@dataclass(frozen=True)
class Permission:
    """One operation on one resource."""

    kind: str
    name: str
    operation: str
    why: str
    #: Whether it is for all resources whose names begin with this one.
    prefixed: bool = False

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}{'…' * self.prefixed}"

    def command(self, principal: str, access: tuple[str, ...] = ()) -> str:
        """The command of Kafka's own tool that grants it; `access` is how the tool reaches the brokers."""
        pattern = ["--resource-pattern-type", "prefixed"] if self.prefixed else []
        words = ["--add", "--allow-principal", principal, "--operation", self.operation]
        return f"kafka-acls.sh {shlex.join([*access, *words, f'--{self.kind}', self.name, *pattern])}"


def permissions(pipeline: Pipeline, mode: Mode = Mode.EXACTLY_ONCE) -> list[Permission]:
    """What runs, proofs and audit tables need. Read and Write include Describe."""
    names, source = pipeline.names(mode), pipeline.source.name
    on_topics = [
        Permission("topic", source, "Read", "its records"),
        Permission("topic", source, "DescribeConfigs", "its settings are compared with its declaration"),
    ]
    for topic in pipeline.own_topics(mode):
        on_topics += [
            Permission("topic", topic.name, "Write", "in transactions"),
            Permission("topic", topic.name, "Read", "the position of a run, and proofs"),
            Permission("topic", topic.name, "DescribeConfigs", "its settings are compared with its declaration"),
        ]
    return [
        *on_topics,
        Permission("group", names.group, "Read", "the source offsets, in the transaction"),
        Permission("group", names.proofs, "Read", "the checkpoint of the proof"),
        Permission("group", names.last_proof, "Read", "the outcome of the last proof"),
        Permission("group", READER_GROUP, "Describe", "reading without joining a group", prefixed=True),
        Permission(
            "transactional-id", names.transactional_prefix, "Write", "one id per source partition", prefixed=True
        ),
    ]


def creation(pipeline: Pipeline, mode: Mode = Mode.EXACTLY_ONCE) -> list[Permission]:
    """What `eos topics create` needs on top, and a run after the source has grown."""
    needed = [Permission("topic", pipeline.source.name, "Create", "`eos topics create`")]
    for topic in pipeline.own_topics(mode):
        needed += [
            Permission("topic", topic.name, "Create", "`eos topics create`"),
            Permission("topic", topic.name, "Alter", "grows with the source"),
        ]
    return needed


def check_permissions(
    pipeline: Pipeline, connection: Connection, mode: Mode = Mode.EXACTLY_ONCE, *, writes: bool = True
) -> None:
    """Refuse a principal that lacks permissions, and name all of them, before anything is read or written."""
    needed = permissions(pipeline, mode)
    topics = sorted({p.name for p in needed if p.kind == "topic"})
    groups = [permission.name for permission in needed if permission.kind == "group"]
    allowed = {**topic_operations(connection, topics), **group_operations(connection, groups)}
    if writes and connection.security.protocol != "PLAINTEXT":
        allowed |= transactional_operations(connection, pipeline.names(mode).transactional_prefix)
    missing = [p for p in needed if (p.kind, p.name) in allowed and lacks(allowed[p.kind, p.name], p.operation)]
    if missing:
        principal = connection.security.principal
        raise EosError(
            f"{principal} lacks {len(missing)} permission(s) that {pipeline.name} needs: "
            f"{'; '.join(map(str, missing))}. Nothing was written.",
            grant_remedy(principal, pipeline.name),
        )


#: Kind and name of a resource → the operations that are authorized on it; None where the broker does not report them.
Allowed = dict[tuple[str, str], set[AclOperation] | None]
Futures = dict[str, Future[Any]]
#: Asks for a description of each of these resources.
Describe = Callable[[AdminClient, list[str]], Futures]


def topic_operations(connection: Connection, topics: list[str]) -> Allowed:
    """The operations authorized on each topic: none on one that the client may not see. A topic that does not exist is
    left out."""

    def describe(admin: AdminClient, names: list[str]) -> Futures:
        return admin.describe_topics(
            TopicCollection(names), include_authorized_operations=True, request_timeout=REQUEST_SECONDS
        )

    return operations(connection, "topic", describe, topics)


def group_operations(connection: Connection, groups: list[str]) -> Allowed:
    def describe(admin: AdminClient, names: list[str]) -> Futures:
        return admin.describe_consumer_groups(
            names, include_authorized_operations=True, request_timeout=REQUEST_SECONDS
        )

    return operations(connection, "group", describe, groups)


def transactional_operations(connection: Connection, prefix: str) -> Allowed:
    """Try an id that no partition has, so that nothing is fenced."""
    producer = Producer(connection.config(transactional_id=f"{prefix}permissions"))
    try:
        retry_transient(lambda: producer.init_transactions(INIT_SECONDS))
    except KafkaException as error:
        if denied_resource(error.args[0]):
            return {("transactional-id", prefix): set()}
        raise
    finally:
        producer.close()
    return {}


def operations(connection: Connection, kind: str, describe: Describe, names: list[str]) -> Allowed:
    """The operations authorized on each resource: one request for all, and another for each whose broker was not
    ready."""
    allowed: Allowed = {}
    futures = describe(connection.admin, names)
    for name in names:
        try:
            described = await_description(connection, name, futures[name], describe)
        except KafkaException as error:
            if denied_resource(error.args[0]):
                allowed[kind, name] = set()
            continue  # it does not exist, or the broker cannot describe it
        authorized = described.authorized_operations
        allowed[kind, name] = None if authorized is None else set(authorized)
    return allowed


def await_description(connection: Connection, name: str, first: Future[Any], describe: Describe) -> Any:
    try:
        return first.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART or not is_transient(error.args[0]):
            raise
    return connection.ask(lambda admin: describe(admin, [name])[name].result())


def lacks(allowed: set[AclOperation] | None, operation: str) -> bool:
    """Whether an operation is known to be denied. What a broker does not report shows in the first attempt."""
    return allowed is not None and ACL_OPERATIONS[operation] not in allowed
