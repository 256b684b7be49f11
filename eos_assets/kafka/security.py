"""Who we are to a Kafka cluster: settings in, the words of librdkafka and of the Java client out. Never in a repr."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from eos_assets.errors import EosError

if TYPE_CHECKING:
    from eos_assets.settings import Settings

DEFAULT_MECHANISM = "SCRAM-SHA-512"
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Security:
    """Certificates are held as text, not as paths: executors elsewhere need no files."""

    protocol: str = "PLAINTEXT"
    mechanism: str = DEFAULT_MECHANISM
    username: str = ""
    password: str = field(default="", repr=False)
    authority: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)

    @staticmethod
    def load(settings: "Settings") -> "Security":
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

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def principal(self) -> str:
        """As the brokers' access lists name us, as far as we know it."""
        if self.sasl:
            return f"User:{self.username}"
        return "the principal of EOS_KAFKA_CERTIFICATE_FILE" if self.certificate else "User:ANONYMOUS"

    def librdkafka(self) -> dict[str, str]:
        if self.protocol == "PLAINTEXT":
            return {}
        config = {"security.protocol": self.protocol}
        if self.sasl:
            config |= {"sasl.mechanisms": self.mechanism}
            config |= {"sasl.username": self.username, "sasl.password": self.password}
        if self.encrypted:
            config |= {"ssl.ca.pem": self.authority} if self.authority else {}
            if self.certificate:
                config |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.key}
                config |= {"ssl.key.password": self.key_password} if self.key_password else {}
        return config

    def java(self) -> dict[str, str]:
        """For the Java client, with its prefix in Spark."""
        if self.protocol == "PLAINTEXT":
            return {}
        config = {"security.protocol": self.protocol}
        if self.sasl:
            user, password = quoted(self.username), quoted(self.password)
            login = f"{LOGIN_MODULES[self.mechanism]} required username={user} password={password};"
            config |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": login}
        if self.encrypted:
            if self.authority:
                config |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authority}
            if self.certificate:
                config |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": self.certificate}
                config |= {"ssl.keystore.key": self.key}
                config |= {"ssl.key.password": self.key_password} if self.key_password else {}
        return {f"kafka.{name}": value for name, value in config.items()}


def quoted(text: str) -> str:
    """A value inside a JAAS line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def pem(path: Path | None, name: str, kind: str) -> str:
    """The text of a PEM file of that kind."""
    if path is None:
        return ""
    text = path.read_text(errors="replace")
    if f"{kind}-----" not in text:
        raise EosError(f"{name}={path} holds no {kind.lower()} in PEM form.", f"Correct {name}.")
    return text


def refuse_inconsistent(settings: "Settings") -> None:
    """A setting that would be ignored in silence, or that is missing, is refused by its name."""
    protocol = settings.kafka_security_protocol
    sasl, encrypted = protocol.startswith("SASL_"), protocol.endswith("SSL")
    of_sasl = {
        "EOS_KAFKA_SASL_MECHANISM": settings.kafka_sasl_mechanism,
        "EOS_KAFKA_USERNAME": settings.kafka_username,
        "EOS_KAFKA_PASSWORD": settings.kafka_password,
    }
    of_tls = {
        "EOS_KAFKA_CA_FILE": settings.kafka_ca_file,
        "EOS_KAFKA_CERTIFICATE_FILE": settings.kafka_certificate_file,
        "EOS_KAFKA_KEY_FILE": settings.kafka_key_file,
        "EOS_KAFKA_KEY_PASSWORD": settings.kafka_key_password,
    }
    for used, of_it, wanted in ((sasl, of_sasl, "SASL_SSL"), (encrypted, of_tls, "SASL_SSL or SSL")):
        idle = [name for name, value in of_it.items() if value and not used]
        if idle:
            raise EosError(
                f"{idle[0]} is set, but EOS_KAFKA_SECURITY_PROTOCOL={protocol} does not use it.",
                f"Set EOS_KAFKA_SECURITY_PROTOCOL to {wanted}, or unset {idle[0]}.",
            )
    for name in ("EOS_KAFKA_USERNAME", "EOS_KAFKA_PASSWORD"):
        if sasl and not of_sasl[name]:
            raise EosError(f"EOS_KAFKA_SECURITY_PROTOCOL={protocol} needs {name}.", f"Set {name}.")
    if bool(settings.kafka_certificate_file) != bool(settings.kafka_key_file):
        raise EosError(
            "Of EOS_KAFKA_CERTIFICATE_FILE and EOS_KAFKA_KEY_FILE only one is set.", "Set both, or none of them."
        )
    if protocol == "SASL_PLAINTEXT" and settings.kafka_sasl_mechanism == "PLAIN" and settings.profile == "production":
        raise EosError(
            "EOS_KAFKA_SASL_MECHANISM=PLAIN over SASL_PLAINTEXT sends the password in clear.",
            "Set EOS_KAFKA_SECURITY_PROTOCOL to SASL_SSL, or the mechanism to SCRAM-SHA-512.",
        )
