"""Connects to the Kafka cluster of the settings, else to the one that `eos up` started."""

from pathlib import Path

from pydantic import SecretStr

from eos_assets.errors import EosError
from eos_assets.kafka.auth import DEFAULT_MECHANISM, OAUTH, ClientCredentials, Security
from eos_assets.kafka.connection import Connection
from eos_assets.platform.running import RunningServers
from eos_assets.platform.settings import Settings


def connect(settings: Settings) -> Connection:
    """The cluster of EOS_BOOTSTRAP_SERVERS, else the one that `eos up` started."""
    security = credentials(settings)
    if settings.bootstrap_servers:
        return connection_to(settings.bootstrap_servers, security, settings)
    local = RunningServers(settings.home)
    address = local.serving_address("kafka")
    if address is None:
        raise EosError("No Kafka cluster is known.", "Start one with `eos up`, or set EOS_BOOTSTRAP_SERVERS.")
    if security.protocol == "PLAINTEXT":
        security = local.security() or security  # the administrator of a secured local cluster
    return connection_to(address, security, settings)


def connection_to(address: str, security: Security, settings: Settings) -> Connection:
    """A connection to this address, with what the settings demand of every cluster."""
    production = settings.profile == "production"
    return Connection(address, security=security, production=production, wait_seconds=settings.kafka_wait_seconds)


def credentials(settings: Settings) -> Security:
    """The credentials of the EOS_KAFKA_… settings."""
    protocol = settings.kafka_security_protocol
    if protocol == "PLAINTEXT":
        return Security()
    return Security(
        protocol=protocol,
        mechanism=settings.kafka_sasl_mechanism or DEFAULT_MECHANISM,
        username=settings.kafka_username or "",
        password=reveal(settings.kafka_password),
        authority=read_pem(settings.kafka_ca_file, "EOS_KAFKA_CA_FILE", "CERTIFICATE"),
        certificate=read_pem(settings.kafka_certificate_file, "EOS_KAFKA_CERTIFICATE_FILE", "CERTIFICATE"),
        key=read_pem(settings.kafka_key_file, "EOS_KAFKA_KEY_FILE", "PRIVATE KEY"),
        key_password=reveal(settings.kafka_key_password),
        client_credentials=client_credentials(settings),
    )


def client_credentials(settings: Settings) -> ClientCredentials | None:
    """How to get a token, with the mechanism OAUTHBEARER."""
    if settings.kafka_sasl_mechanism != OAUTH:
        return None
    return ClientCredentials(
        token_url=settings.kafka_oauth_token_url or "",
        client_id=settings.kafka_oauth_client_id or "",
        client_secret=reveal(settings.kafka_oauth_client_secret),
        scope=settings.kafka_oauth_scope or "",
    )


def reveal(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


def read_pem(path: Path | None, name: str, kind: str) -> str:
    """The text of a PEM file that holds a block of this kind."""
    if path is None:
        return ""
    text = path.read_text(errors="replace")
    if f"{kind}-----" not in text:
        raise EosError(f"{name}={path} does not hold a {kind.lower()} in PEM form.", f"Correct {name}.")
    return text
