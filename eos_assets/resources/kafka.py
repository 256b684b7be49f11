"""The Kafka cluster, as a Dagster resource."""

from dagster import ConfigurableResource
from pydantic import Field

from eos_assets.kafka.connection import Connection
from eos_assets.settings import Settings


class KafkaResource(ConfigurableResource):  # type: ignore[type-arg]
    """How the assets reach Kafka. Connects on first use."""

    bootstrap_servers: str = Field(
        default="", description="host:port,…; default: EOS_BOOTSTRAP_SERVERS, else `eos up`."
    )

    def connection(self) -> Connection:
        return Connection(self.bootstrap_servers) if self.bootstrap_servers else Connection.load(Settings.load())
