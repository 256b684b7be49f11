"""One Kafka cluster: its address and settings, and what it reports about its brokers and topics."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ClusterMetadata

from eos_assets.deadlines import BROKER_WAIT_SECONDS, Deadline
from eos_assets.errors import EosError
from eos_assets.kafka.auth import Security
from eos_assets.kafka.auth_errors import ClientErrors, unreachable
from eos_assets.kafka.retries import TIMEOUT_SECONDS, retry_transient

#: librdkafka logs each refused connection at level 3; the errors that matter are reported here. With this maximum
#: a broker that restarts is found within a second instead of ten. The minimum is also the time that a new client waits
#: before it leaves the bootstrap address.
DEFAULTS = {"log_level": 2, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 1000}
METADATA_SECONDS = 10
#: How long one request may take before it is sent again.
REQUEST_SECONDS = 3.0
#: After this time without a response, a reader or an admin client closes the connection and looks for another leader: a
#: broker that is paused keeps its connections. By default it is a minute. A producer derives its own from its
#: transaction timeout.
SILENCE_MS = 15_000

Response = TypeVar("Response")


@dataclass(frozen=True)
class Connection:
    """How to reach one Kafka cluster. It may be printed: no secret is in its repr."""

    bootstrap_servers: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    security: Security = field(default_factory=Security)
    #: Whether topics must survive the loss of a broker, whatever a pipeline declares (EOS_PROFILE=production).
    production: bool = False
    #: How long a run keeps trying while no broker answers (EOS_KAFKA_WAIT_SECONDS).
    wait_seconds: float = BROKER_WAIT_SECONDS

    def config(self, **options: Any) -> dict[str, Any]:
        """A librdkafka configuration. Keyword names have underscores for dots."""
        extra = {name.replace("_", "."): value for name, value in options.items()}
        known = {**DEFAULTS, **self.security.librdkafka(), **self.options}
        return {"bootstrap.servers": self.bootstrap_servers, **known, **extra}

    @cached_property
    def admin(self) -> AdminClient:
        """One client for all calls. It is kept, because a future fails once its client is gone."""
        return self._new_admin()

    def _new_admin(self) -> AdminClient:
        silence = {"socket.timeout.ms": SILENCE_MS}
        config: dict[str, Any] = {**silence, **self.config(), "error_cb": self.client_errors.record}
        return AdminClient(config)

    def ask(self, request: Callable[[AdminClient], Response], seconds: float = TIMEOUT_SECONDS) -> Response:
        """Send a request with the admin client, and send it again while it fails with a transient error.

        Every retry has a new client: one that remembers a broker which is down may ask it again and again, or wait for
        it although it has come back. A new client that got an answer replaces the old one.
        """
        client = self.admin

        def send() -> Response:
            nonlocal client
            try:
                return request(client)
            except KafkaException:
                client = self._new_admin()
                raise

        response = retry_transient(send, seconds)
        if client is not self.admin:
            self._replaced.append(self.admin)
            self.__dict__["admin"] = client
        return response

    @cached_property
    def _replaced(self) -> list[AdminClient]:
        """Admin clients that were replaced. Other threads may still wait for their futures."""
        return []

    @cached_property
    def client_errors(self) -> ClientErrors:
        """The errors that the admin client reports in the background: a call that times out does not give a reason."""
        return ClientErrors()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the clients out: they do not pickle, and the receiver creates its own."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def metadata(self, seconds: float = METADATA_SECONDS) -> ClusterMetadata:
        """The cluster's brokers and topics. Refused credentials raise immediately, a cluster that does not answer
        raises at the deadline."""
        deadline = Deadline(seconds)
        while True:
            try:
                return self.admin.list_topics(timeout=min(1.0, seconds))
            except KafkaException as failure:
                self.admin.poll(0)  # receives the reason
                refusal = self.client_errors.refusal(self.security)
                if refusal or deadline.passed:
                    error = refusal or unreachable(self.bootstrap_servers, failure.args[0], self.client_errors)
                    raise error from failure

    def partitions(self, topic: str) -> list[int]:
        """The partitions of an existing topic."""
        metadata = self.metadata().topics.get(topic)
        if metadata is None:
            hidden = f", or {self.security.principal} may not see it" if self.security.protocol != "PLAINTEXT" else ""
            raise EosError(
                f"Topic {topic} does not exist{hidden}.", "Create the declared topics with `eos topics create`."
            )
        return list(metadata.partitions)

    def topic_ids(self, topics: list[str]) -> dict[str, str]:
        """The id of each existing topic. A topic that was deleted and created again has another id."""

        def describe(admin: AdminClient) -> dict[str, str]:
            futures = admin.describe_topics(TopicCollection(topics), request_timeout=REQUEST_SECONDS)
            return {name: str(future.result().topic_id) for name, future in futures.items()}

        return self.ask(describe)
