"""Credentials for a Kafka cluster, as settings for librdkafka and for the Java client."""

from dataclasses import dataclass, field

DEFAULT_MECHANISM = "SCRAM-SHA-512"
OAUTH = "OAUTHBEARER"
LOGIN_MODULES = {
    OAUTH: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


#: Fetches the tokens of the Java client.
TOKEN_CALLBACK = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True)
class ClientCredentials:
    """How clients get a token from an identity provider: the client credentials grant of OAuth 2.0."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""


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
    #: With the mechanism OAUTHBEARER, instead of user and password.
    client_credentials: ClientCredentials | None = None

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
            return f"User:{self.client_credentials.client_id if self.client_credentials else self.username}"
        return "the principal of EOS_KAFKA_CERTIFICATE_FILE" if self.certificate else "User:ANONYMOUS"

    def librdkafka(self) -> dict[str, str]:
        """The settings of librdkafka."""
        if self.protocol == "PLAINTEXT":
            return {}
        config = {"security.protocol": self.protocol}
        if self.sasl:
            config |= {"sasl.mechanisms": self.mechanism, **self._librdkafka_login()}
        if self.encrypted:
            config |= {"ssl.ca.pem": self.authority} if self.authority else {}
            if self.certificate:
                config |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.key}
                config |= {"ssl.key.password": self.key_password} if self.key_password else {}
        return config

    def _librdkafka_login(self) -> dict[str, str]:
        oauth = self.client_credentials
        if oauth is None:
            return {"sasl.username": self.username, "sasl.password": self.password}
        return {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": oauth.token_url,
            "sasl.oauthbearer.client.id": oauth.client_id,
            "sasl.oauthbearer.client.secret": oauth.client_secret,
            **({"sasl.oauthbearer.scope": oauth.scope} if oauth.scope else {}),
        }

    def java(self) -> dict[str, str]:
        """The settings of the Java client, with the prefix that Spark expects."""
        if self.protocol == "PLAINTEXT":
            return {}
        config = {"security.protocol": self.protocol}
        if self.sasl:
            config |= {"sasl.mechanism": self.mechanism, **self._java_login()}
        if self.encrypted:
            if self.authority:
                config |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authority}
            if self.certificate:
                config |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": self.certificate}
                config |= {"ssl.keystore.key": self.key}
                config |= {"ssl.key.password": self.key_password} if self.key_password else {}
        return {f"kafka.{name}": value for name, value in config.items()}

    def _java_login(self) -> dict[str, str]:
        oauth = self.client_credentials
        if oauth is None:
            return {"sasl.jaas.config": self._jaas(username=self.username, password=self.password)}
        scope = {"scope": oauth.scope} if oauth.scope else {}
        return {
            "sasl.jaas.config": self._jaas(clientId=oauth.client_id, clientSecret=oauth.client_secret, **scope),
            "sasl.login.callback.handler.class": TOKEN_CALLBACK,
            "sasl.oauthbearer.token.endpoint.url": oauth.token_url,
        }

    def _jaas(self, **options: str) -> str:
        given = " ".join(f"{name}={quote(value)}" for name, value in options.items())
        return f"{LOGIN_MODULES[self.mechanism]} required {given};"


def quote(text: str) -> str:
    """Quote a value for a line of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
