"""A broker that accepts only tokens of an identity provider: every client gets one by itself."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from pyspark.sql import SparkSession

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.open_transactions import find_open_transactions
from eos_assets.kafka.transaction_client import ask_transactions
from eos_assets.local.broker import KafkaCluster, Node
from eos_assets.local.ports import ReservedPort
from eos_assets.platform.cluster import connect
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import Settings
from eos_assets_tests.run.lab import KINDS, Lab, declare
from eos_assets_tests.scenarios.oauth.identity_provider import AUDIENCE, CLIENT, SCOPE, SECRET, IdentityProvider

MODULE = "org.apache.kafka.common.security.oauthbearer"


@dataclass
class TokenCluster:
    """The provider, the connection with a token, and one to the open listener of the same broker."""

    provider: IdentityProvider
    environ: dict[str, str]
    open: Connection

    def connect(self, **changes: str) -> Connection:
        return connect(Settings.load({**self.environ, **changes}))


@pytest.fixture(scope="module")
def cluster(
    spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TokenCluster]:
    port = ReservedPort()
    with IdentityProvider(spark) as provider:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.keys_url}"
        env = {"JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {allowed}"}
        kafka = KafkaCluster(tmp_path_factory.mktemp("oauth"), settings=settings, env=env)
        kafka.overrides = with_tokens(kafka.nodes[0], port.number, provider)
        with kafka:
            environ = {
                "EOS_BOOTSTRAP_SERVERS": f"{LOOPBACK}:{port.number}",
                "EOS_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
                "EOS_KAFKA_SASL_MECHANISM": "OAUTHBEARER",
                "EOS_KAFKA_OAUTH_TOKEN_URL": provider.token_url,
                "EOS_KAFKA_OAUTH_CLIENT_ID": CLIENT,
                "EOS_KAFKA_OAUTH_CLIENT_SECRET": SECRET,
                "EOS_KAFKA_OAUTH_SCOPE": SCOPE,
            }
            yield TokenCluster(provider, environ, kafka.connection)
    port.release()


def with_tokens(node: Node, port: int, provider: IdentityProvider) -> dict[str, str]:
    """One more listener, for clients with a token of this provider."""
    return {
        "listeners": f"PLAINTEXT://{node.address},TOKEN://{LOOPBACK}:{port},CONTROLLER://{node.controller}",
        "advertised.listeners": f"PLAINTEXT://{node.address},TOKEN://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TOKEN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": f"{MODULE}.OAuthBearerLoginModule required;",
        "listener.name.token.oauthbearer.sasl.server.callback.handler.class": (
            f"{MODULE}.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": provider.address,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_runs_and_is_proven_with_tokens(spark: SparkSession, cluster: TokenCluster, kind: str) -> None:
    lab = Lab(spark, cluster.connect(), declare(kind=kind, partitions=1))
    lab.create()
    lab.fill(300)
    granted = cluster.provider.granted
    assert lab.run().complete
    assert cluster.provider.granted > granted, "the tasks get tokens of their own"
    replace(lab, connection=cluster.open).assert_squares(range(300))
    assert lab.broken() == set()


def test_the_client_for_transactions_gets_a_token(cluster: TokenCluster) -> None:
    connection = cluster.connect()
    assert find_open_transactions(connection, ["__consumer_offsets"]) == []
    assert ask_transactions(connection, lambda client: client.list_transactions())


def test_a_wrong_secret_is_reported_without_it(cluster: TokenCluster) -> None:
    wrong = cluster.connect(EOS_KAFKA_OAUTH_CLIENT_SECRET="kanarienvogel-wrong")
    with pytest.raises(EosError, match=f"credentials of User:{CLIENT}") as error:
        wrong.metadata(seconds=5)
    assert "EOS_KAFKA_OAUTH_" in error.value.remedy
    with pytest.raises(EosError, match=f"No token for {CLIENT} from {cluster.provider.token_url}") as later:
        ask_transactions(wrong, lambda client: client.list_transactions())
    assert "kanarienvogel" not in f"{error.value} {later.value}"
    assert cluster.provider.refused >= 2
