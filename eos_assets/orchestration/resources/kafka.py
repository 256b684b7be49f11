"""The Kafka cluster as a Dagster resource."""

from dataclasses import replace

from dagster import ConfigurableResource
from pydantic import Field, PrivateAttr

from eos_assets.errors import EosError
from eos_assets.kafka.auth import DEFAULT_MECHANISM, OAUTH, ClientCredentials, Security
from eos_assets.kafka.connection import Connection
from eos_assets.platform.cluster import connect, connection_to, credentials
from eos_assets.platform.settings import MECHANISMS, PROTOCOLS, Settings


class KafkaResource(ConfigurableResource):  # type: ignore[type-arg]
    """How the assets connect to Kafka. Fields that are not given come from the environment.

    Secrets belong into the environment: write `password=EnvVar("MY_PASSWORD")`, never the password.
    """

    bootstrap_servers: str = Field(
        default="", description="host:port,…; default: EOS_BOOTSTRAP_SERVERS, else that of `eos up`."
    )
    security_protocol: str = Field(default="", description="Default: EOS_KAFKA_SECURITY_PROTOCOL.")
    sasl_mechanism: str = Field(default=DEFAULT_MECHANISM, description="With a security_protocol given here.")
    username: str = Field(default="", description="With a security_protocol given here.")
    password: str = Field(default="", repr=False, description="An EnvVar, with a security_protocol given here.")
    token_url: str = Field(default="", description="With sasl_mechanism OAUTHBEARER: the token endpoint.")
    client_id: str = Field(default="", description="With sasl_mechanism OAUTHBEARER.")
    client_secret: str = Field(default="", repr=False, description="An EnvVar, with sasl_mechanism OAUTHBEARER.")
    scope: str = Field(default="", description="With sasl_mechanism OAUTHBEARER, where the provider requires one.")
    authority: str = Field(default="", repr=False, description="PEM text, with a security_protocol given here.")

    _connection: Connection | None = PrivateAttr(default=None)

    def connection(self) -> Connection:
        """One connection for all steps of a run, whose clients stay connected."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Connection:
        settings = Settings.load()
        if not self.bootstrap_servers:
            connection = connect(settings)
            return replace(connection, security=self.security()) if self.security_protocol else connection
        security = self.security() if self.security_protocol else credentials(settings)
        return connection_to(self.bootstrap_servers, security, settings)

    def security(self) -> Security:
        for name, value, allowed in (
            ("security_protocol", self.security_protocol, PROTOCOLS),
            ("sasl_mechanism", self.sasl_mechanism, MECHANISMS),
        ):
            if value not in allowed:
                raise EosError(f"KafkaResource: {name}={value!r} is not valid.", f"Use one of {', '.join(allowed)}.")
        oauth = ClientCredentials(self.token_url, self.client_id, self.client_secret, self.scope)
        if self.sasl_mechanism == OAUTH:
            for name in ("token_url", "client_id", "client_secret"):
                if not getattr(self, name):
                    raise EosError(f"KafkaResource: sasl_mechanism={OAUTH} needs {name}.", f"Give {name}.")
        return Security(
            self.security_protocol,
            self.sasl_mechanism,
            self.username,
            self.password,
            authority=self.authority,
            client_credentials=oauth if self.sasl_mechanism == OAUTH else None,
        )
