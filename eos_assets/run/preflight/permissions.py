"""The least that a pipeline's principal must be allowed: as a table, as commands, and compared with what it is allowed.

Kafka tells a client what it may do with topics and groups. For transactional ids it does not: there a secured run
begins a session with an id that nothing else uses. So what is missing is found before anything runs.
"""

import shlex
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.auth_errors import GRANT_REMEDY, denied_resource
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.producer import Producer
from eos_assets.kafka.reader import READER_GROUP
from eos_assets.kafka.retries import is_transient, retry_transient

INIT_SECONDS = 30.0


@dataclass(frozen=True)
class Permission:
    """One operation on one resource; `prefixed` is on all resources whose names begin so."""

    kind: str
    name: str
    operation: str
    why: str
    prefixed: bool = False

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}{'…' * self.prefixed}"

    def command(self, principal: str, access: tuple[str, ...] = ()) -> str:
        """For Kafka's own tool; `access` is how it reaches the brokers."""
        pattern = ["--resource-pattern-type", "prefixed"] if self.prefixed else []
        words = ["--add", "--allow-principal", principal, "--operation", self.operation]
        return f"kafka-acls.sh {shlex.join([*access, *words, f'--{self.kind}', self.name, *pattern])}"


def permissions(pipeline: Pipeline, mode: Mode = Mode.EXACTLY_ONCE) -> list[Permission]:
    """What runs, proofs and audit tables need. Read and Write include Describe."""
    names, source = pipeline.names(mode), pipeline.source.name
    found = [
        Permission("topic", source, "Read", "its records"),
        Permission("topic", source, "DescribeConfigs", "its settings are compared with its declaration"),
    ]
    for topic in pipeline.own_topics(mode):
        found += [
            Permission("topic", topic.name, "Write", "in transactions"),
            Permission("topic", topic.name, "Read", "where to go on, and proofs"),
            Permission("topic", topic.name, "DescribeConfigs", "its settings are compared with its declaration"),
        ]
    return [
        *found,
        Permission("group", names.group, "Read", "the source offsets, in the transaction"),
        Permission("group", names.proofs, "Read", "up to where everything was proven"),
        Permission("group", READER_GROUP, "Describe", "reading without joining a group", prefixed=True),
        Permission(
            "transactional-id", names.transactional_prefix, "Write", "one id per source partition", prefixed=True
        ),
    ]


def creation(pipeline: Pipeline, mode: Mode = Mode.EXACTLY_ONCE) -> list[Permission]:
    """What `eos topics create` needs on top, and a run after the source has grown."""
    found = [Permission("topic", pipeline.source.name, "Create", "`eos topics create`")]
    for topic in pipeline.own_topics(mode):
        found += [
            Permission("topic", topic.name, "Create", "`eos topics create`"),
            Permission("topic", topic.name, "Alter", "grows with the source"),
        ]
    return found


def check_permissions(
    pipeline: Pipeline, connection: Connection, mode: Mode = Mode.EXACTLY_ONCE, *, writes: bool = True
) -> None:
    """Refuses with every permission that is missing, before anything is read or written."""
    needed = permissions(pipeline, mode)
    topics = sorted({p.name for p in needed if p.kind == "topic"})
    groups = [pipeline.names(mode).group, pipeline.names(mode).proofs, READER_GROUP]
    allowed = {**topic_operations(connection, topics), **group_operations(connection, groups)}
    if writes and connection.security.protocol != "PLAINTEXT":
        allowed |= transactional_operations(connection, pipeline.names(mode).transactional_prefix)
    missing = [p for p in needed if (p.kind, p.name) in allowed and lacks(allowed[p.kind, p.name], p.operation)]
    if missing:
        principal = connection.security.principal
        raise EosError(
            f"{principal} lacks {len(missing)} permission(s) that {pipeline.name} needs: {told(missing)}. Nothing was "
            "written.",
            GRANT_REMEDY.format(principal=principal).replace("PIPELINE", pipeline.name),
        )


Allowed = dict[tuple[str, str], set[AclOperation] | None]
Futures = dict[str, Future[Any]]


def topic_operations(connection: Connection, topics: list[str]) -> Allowed:
    """What we may do with each topic; nothing if we may not even see it, no entry if it is not there."""

    def describe(names: list[str]) -> Futures:
        return connection.admin.describe_topics(TopicCollection(names), include_authorized_operations=True)

    return operations("topic", describe, topics)


def group_operations(connection: Connection, groups: list[str]) -> Allowed:
    def describe(names: list[str]) -> Futures:
        return connection.admin.describe_consumer_groups(names, include_authorized_operations=True)

    return operations("group", describe, groups)


def transactional_operations(connection: Connection, prefix: str) -> Allowed:
    """Fences nobody: no partition has this id."""
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


def operations(kind: str, describe: Callable[[list[str]], Futures], names: list[str]) -> Allowed:
    """Asked for all names at once, and again for those whose broker was not ready to answer."""
    found: Allowed = {}
    futures = describe(names)
    for name in names:
        try:
            described = answer(name, futures[name], describe)
        except KafkaException as error:
            if denied_resource(error.args[0]):
                found[kind, name] = set()
            continue  # not there, or the broker cannot tell
        authorized = described.authorized_operations
        found[kind, name] = None if authorized is None else set(authorized)
    return found


def answer(name: str, first: Future[Any], describe: Callable[[list[str]], Futures]) -> Any:
    try:
        return first.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART or not is_transient(error.args[0]):
            raise
    return retry_transient(lambda: describe([name])[name].result())


def lacks(allowed: set[AclOperation] | None, operation: str) -> bool:
    """None: the broker does not tell, so the attempt will."""
    wanted = {"Read": "READ", "Write": "WRITE", "Describe": "DESCRIBE", "DescribeConfigs": "DESCRIBE_CONFIGS"}
    return allowed is not None and AclOperation[wanted[operation]] not in allowed


def told(missing: list[Permission]) -> str:
    return "; ".join(str(permission) for permission in missing)
