"""What brokers say to somebody whom they turn away: errors in, a problem with its remedy out."""

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
REMEDY = "`eos acls PIPELINE --principal {principal}` prints the commands that grant what is needed."


class Denied(TaskError):
    """A permission is missing. No retry heals that, and nothing of the transaction is visible."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(Code.PERMISSION_DENIED, text)
        self.kind = kind


def denial(error: KafkaError) -> str | None:
    """The kind of resource on which a permission is missing; None if the error is about something else."""
    return AUTHORIZATION.get(error.code())


def denied(error: KafkaError, principal: str) -> EosError | None:
    """The error for a user, if it is about a permission."""
    kind = denial(error)
    if kind is None:
        return None
    return EosError(
        f"{principal} lacks a permission on a {kind}: {error.str()} ({error.name()}).",
        REMEDY.format(principal=principal),
    )


CREDENTIALS = "Check EOS_KAFKA_USERNAME, EOS_KAFKA_PASSWORD and EOS_KAFKA_SASL_MECHANISM."
CERTIFICATES = "Check EOS_KAFKA_CA_FILE and EOS_KAFKA_SECURITY_PROTOCOL."


@dataclass
class Complaints:
    """The last errors that a client reported on its own, without anybody asking."""

    heard: list[KafkaError] = field(default_factory=list)

    def note(self, error: KafkaError) -> None:
        self.heard = [*self.heard[-9:], error]

    def last(self, security: Security) -> EosError | None:
        """Refused credentials and certificates: asking again does not help."""
        for error in reversed(self.heard):
            if error.code() == KafkaError._AUTHENTICATION:
                return EosError(f"Kafka does not let {security.principal} in: {brief(error)}.", CREDENTIALS)
            if error.code() == KafkaError._SSL:
                return EosError(f"No trusted connection to Kafka: {brief(error)}.", CERTIFICATES)
        return None


def brief(error: KafkaError) -> str:
    """Without the clock readings and states that librdkafka adds."""
    return re.sub(r"\s*\((after|in state|install|[^()]*identical error)[^()]*\)", "", error.str()).rstrip(". ")


def unreachable(servers: str, error: KafkaError, complaints: Complaints) -> EosError:
    spoken = [brief(heard) for heard in complaints.heard if heard.code() == KafkaError._TRANSPORT]
    why = f"{error.str()}; {spoken[-1]}" if spoken else error.str()
    return EosError(
        f"No Kafka broker answers at {servers}: {why}.",
        "Check the address and EOS_KAFKA_SECURITY_PROTOCOL, or start a local one with `eos up`.",
    )
