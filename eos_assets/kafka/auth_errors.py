"""Recognizes errors about permissions, credentials and certificates, and explains them to the user."""

import re
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from eos_assets.errors import Code, EosError, TaskError
from eos_assets.kafka.auth import Security

#: Error → the kind of resource that a permission is missing on.
AUTHORIZATION = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
CREDENTIALS_REMEDY = "Check EOS_KAFKA_USERNAME, EOS_KAFKA_PASSWORD and EOS_KAFKA_SASL_MECHANISM."
TOKEN_REMEDY = "Check the EOS_KAFKA_OAUTH_… settings, and that this machine reaches the token endpoint."
CERTIFICATES_REMEDY = "Check EOS_KAFKA_CA_FILE and EOS_KAFKA_SECURITY_PROTOCOL."


class PermissionDenied(TaskError):
    """A permission is missing. No retry grants it, and nothing of the transaction is visible."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(Code.PERMISSION_DENIED, text)
        self.kind = kind


def denied_resource(error: KafkaError) -> str | None:
    """The kind of resource that a permission is missing on; None for every other error."""
    return AUTHORIZATION.get(error.code())


def grant_remedy(principal: str, pipeline: str = "PIPELINE") -> str:
    """The remedy for a missing permission."""
    return f"Grant what `eos acls {pipeline} --principal {principal}` prints."


def permission_error(error: KafkaError, principal: str) -> EosError | None:
    """The error for the user if a permission is missing; None for every other error."""
    kind = denied_resource(error)
    if kind is None:
        return None
    return EosError(
        f"{principal} lacks a permission on a {kind}: {error.str()} ({error.name()}).",
        grant_remedy(principal),
    )


@dataclass
class ClientErrors:
    """The last errors that a client reported in the background."""

    last: list[KafkaError] = field(default_factory=list)

    def record(self, error: KafkaError) -> None:
        self.last = [*self.last[-9:], error]

    def refusal(self, security: Security) -> EosError | None:
        """The error for the user if credentials or certificates were refused, because no retry changes that."""
        for error in reversed(self.last):
            if error.code() == KafkaError._AUTHENTICATION:
                return EosError(
                    f"Kafka rejects the credentials of {security.principal}: {describe(error)}.",
                    TOKEN_REMEDY if security.client_credentials else CREDENTIALS_REMEDY,
                )
            if error.code() == KafkaError._SSL:
                return EosError(f"The TLS connection to Kafka failed: {describe(error)}.", CERTIFICATES_REMEDY)
        return None


def describe(error: KafkaError) -> str:
    """The text of an error without the times and states that librdkafka adds."""
    return re.sub(r"\s*\((after|in state|install|[^()]*identical error)[^()]*\)", "", error.str()).rstrip(". ")


class NoBrokerAnswers(EosError):
    """No broker of the cluster answers. A later call may succeed."""


def unreachable(servers: str, error: KafkaError, client_errors: ClientErrors) -> NoBrokerAnswers:
    """The error for the user if no broker answers."""
    reasons = [describe(other) for other in client_errors.last if other.code() == KafkaError._TRANSPORT]
    why = f"{error.str()}; {reasons[-1]}" if reasons else error.str()
    return NoBrokerAnswers(
        f"No Kafka broker answers at {servers}: {why}.",
        "Check the address and EOS_KAFKA_SECURITY_PROTOCOL, or start a local one with `eos up`.",
    )
