"""The settings of a Kafka cluster in, configurations and clients that tell errors clearly out."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ClusterMetadata

from eos_assets.errors import EosError
from eos_assets.kafka.auth import Security
from eos_assets.kafka.auth_errors import Complaints, unreachable

#: librdkafka logs each refused connection at level 3; we report what matters ourselves. A broker that comes back
#: is found again within a second instead of ten. A client that has learned the names of the brokers connects to one of
#: them after half of the least back-off: that counts from its first connection, to the bootstrap address.
DEFAULTS = {"log_level": 2, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 1000}
PATIENCE_SECONDS = 10
#: Between two questions.
PAUSE_SECONDS = 0.05
#: The time limit of a first question: brokers nearby answer a new client within it.
SHORT_SECONDS = 0.02

#: What a broker says while it elects, loads or settles. The same question a moment later gets an answer.
TRANSIENT = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_CONTROLLER,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
#: What the client itself says (its codes are negative) is about connections that come and go, but for these.
LASTING = {
    KafkaError._INVALID_ARG,
    KafkaError._AUTHENTICATION,
    KafkaError._STATE,
    KafkaError._CONFLICT,
    KafkaError._FATAL,
    KafkaError._FENCED,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError._AUTO_OFFSET_RESET,
}

Answer = TypeVar("Answer")


def ask(question: Callable[[], Answer], patience: float = 30) -> Answer:
    """Asks again while the answer is a transient error, until the patience ends; then the error is the answer."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return question()
        except KafkaException as error:
            if not transient(error.args[0]) or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def ask_shortly(question: Callable[[float], Answer], patience: float = 30) -> Answer:
    """The first question of a new client: with a short time limit, then with longer ones. If it asks for the leader of
    a partition just when it changes from the bootstrap address to the brokers, librdkafka waits for a timer of half a
    second before it looks again; the next question looks at once."""
    limit, deadline = SHORT_SECONDS, time.monotonic() + patience
    while True:
        begun = time.monotonic()
        try:
            return question(limit)
        except KafkaException as error:
            left = deadline - time.monotonic()
            if not transient(error.args[0]) or left <= 0:
                raise
            if time.monotonic() - begun < limit / 2:  # an answer, and not the limit
                time.sleep(min(PAUSE_SECONDS, left))
            limit = min(4 * limit, left)


def transient(error: KafkaError) -> bool:
    code = error.code()
    return error.retriable() or code in TRANSIENT or (code < 0 and code not in LASTING)


@dataclass(frozen=True)
class Connection:
    """How to reach one Kafka cluster. It may be printed: no secret is in its repr."""

    bootstrap_servers: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    security: Security = field(default_factory=Security)
    #: Whether topics must outlive the loss of a broker, whatever a pipeline declares (EOS_PROFILE=production).
    production: bool = False

    def config(self, **more: Any) -> dict[str, Any]:
        """A librdkafka configuration; keyword names have underscores for dots."""
        extra = {name.replace("_", "."): value for name, value in more.items()}
        known = {**DEFAULTS, **self.security.librdkafka(), **self.options}
        return {"bootstrap.servers": self.bootstrap_servers, **known, **extra}

    @cached_property
    def admin(self) -> AdminClient:
        """One client for all calls: a future whose client is gone fails."""
        config: dict[str, Any] = {**self.config(), "error_cb": self.complaints.note}
        return AdminClient(config)

    @cached_property
    def complaints(self) -> Complaints:
        """What the clients say about the brokers meanwhile: a call that times out does not tell why."""
        return Complaints()

    def __getstate__(self) -> dict[str, Any]:
        """Clients do not pickle; the other side makes its own."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def metadata(self, patience: float = PATIENCE_SECONDS) -> ClusterMetadata:
        """The cluster's brokers and topics; a cluster that does not answer is a clear error, and one that turns us
        away says so at once."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self.admin.list_topics(timeout=min(1.0, patience))
            except KafkaException as error:
                self.admin.poll(0)  # takes in why
                told = self.complaints.last(self.security)
                if told or time.monotonic() > deadline:
                    raise told or unreachable(self.bootstrap_servers, error.args[0], self.complaints) from error

    def partitions(self, topic: str) -> list[int]:
        """The partitions of an existing topic."""
        found = self.metadata().topics.get(topic)
        if found is None:
            hidden = f", or {self.security.principal} may not see it" if self.security.protocol != "PLAINTEXT" else ""
            raise EosError(
                f"Topic {topic} does not exist{hidden}.", "Create the declared topics with `eos topics create`."
            )
        return list(found.partitions)

    def topic_ids(self, topics: list[str]) -> dict[str, str]:
        """The id of each existing topic: a topic that was deleted and created again has another one."""

        def described() -> dict[str, str]:
            futures = self.admin.describe_topics(TopicCollection(topics))
            return {name: str(future.result().topic_id) for name, future in futures.items()}

        return ask(described)
