"""The Kafka cluster that the settings name, or the one that `eos up` started."""

from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.kafka.auth import DEFAULT_MECHANISM, Security
from eos_assets.kafka.connection import Connection
from eos_assets.platform.running import RunningServers
from eos_assets.platform.settings import Settings


def connect(settings: Settings) -> Connection:
    """Connect to the cluster of EOS_BOOTSTRAP_SERVERS, else to the one that `eos up` started."""
    security = credentials(settings)
    production = settings.profile == "production"
    if settings.bootstrap_servers:
        return Connection(settings.bootstrap_servers, security=security, production=production)
    started = RunningServers(settings.home)
    address = started.address_of("kafka")
    if address is None:
        raise EosError("No Kafka is known.", "Start one with `eos up`, or set EOS_BOOTSTRAP_SERVERS.")
    if security.protocol == "PLAINTEXT":
        security = started.security() or security  # the administrator of a secured local cluster
    return Connection(address, security=security, production=production)


def credentials(settings: Settings) -> Security:
    """The credentials of the EOS_KAFKA_… settings."""
    protocol = settings.kafka_security_protocol
    if protocol == "PLAINTEXT":
        return Security()
    return Security(
        protocol=protocol,
        mechanism=settings.kafka_sasl_mechanism or DEFAULT_MECHANISM,
        username=settings.kafka_username or "",
        password=settings.kafka_password or "",
        authority=pem(settings.kafka_ca_file, "EOS_KAFKA_CA_FILE", "CERTIFICATE"),
        certificate=pem(settings.kafka_certificate_file, "EOS_KAFKA_CERTIFICATE_FILE", "CERTIFICATE"),
        key=pem(settings.kafka_key_file, "EOS_KAFKA_KEY_FILE", "PRIVATE KEY"),
        key_password=settings.kafka_key_password or "",
    )


def pem(path: Path | None, name: str, kind: str) -> str:
    """The text of a PEM file of that kind."""
    if path is None:
        return ""
    text = path.read_text(errors="replace")
    if f"{kind}-----" not in text:
        raise EosError(f"{name}={path} holds no {kind.lower()} in PEM form.", f"Correct {name}.")
    return text
