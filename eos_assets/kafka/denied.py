"""What brokers say to somebody whom they turn away: errors in, a problem with its remedy out."""

import re
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from eos_assets.errors import EosError
from eos_assets.kafka.security import Security

#: Error → the kind of resource that a permission is missing on.
AUTHORIZATION = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
#: The same in the words of the Java client, inside a Spark error.
JAVA = re.compile(
    r"(Topic|Group|TransactionalId|Cluster)AuthorizationException|(Sasl|Ssl)AuthenticationException[^\n]*"
)
REMEDY = "`eos acls PIPELINE --principal {principal}` prints the commands that grant what is needed."


class Denied(Exception):
    """A permission is missing. No retry heals that, and nothing of the transaction is visible."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
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


def denied_in_spark(text: str, principal: str) -> EosError | None:
    """The same for what Spark's own reader ran into."""
    found = JAVA.search(text)
    if found is None:
        return None
    if found.group(2):
        return EosError(f"Spark's Kafka client was turned away: {found.group(0)[:300]}.", CREDENTIALS)
    told = next((line.strip() for line in text.splitlines() if found.group(0) in line), found.group(0))
    return EosError(
        f"{principal} lacks a permission that Spark's reader needs: {told[:300]}.", REMEDY.format(principal=principal)
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
