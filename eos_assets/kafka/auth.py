"""Credentials for a Kafka cluster, as settings for librdkafka and for the Java client."""

from dataclasses import dataclass, field

DEFAULT_MECHANISM = "SCRAM-SHA-512"
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Security:
    """How clients authenticate. Secrets are in no repr, and certificates are text, so that executors need no files."""

    protocol: str = "PLAINTEXT"
    mechanism: str = DEFAULT_MECHANISM
    username: str = ""
    password: str = field(default="", repr=False)
    authority: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def principal(self) -> str:
        """The name of these clients in the brokers' access lists, if it is known here."""
        if self.sasl:
            return f"User:{self.username}"
        return "the principal of EOS_KAFKA_CERTIFICATE_FILE" if self.certificate else "User:ANONYMOUS"

    def librdkafka(self) -> dict[str, str]:
        """The settings of librdkafka."""
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
        """The settings of the Java client, with the prefix that Spark expects."""
        if self.protocol == "PLAINTEXT":
            return {}
        config = {"security.protocol": self.protocol}
        if self.sasl:
            user, password = quote(self.username), quote(self.password)
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


def quote(text: str) -> str:
    """Quote a value for a line of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
