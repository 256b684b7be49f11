"""The client for the transactions of other producers: kafka-python, because librdkafka cannot list or abort them."""

import base64
import json
import logging
import ssl
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from eos_assets.deadlines import Deadline
from eos_assets.errors import EosError
from eos_assets.kafka.auth import ClientCredentials, Security
from eos_assets.kafka.auth_errors import TOKEN_REMEDY
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.retries import PAUSE_SECONDS, TIMEOUT_SECONDS

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

REQUEST_MS = 10_000
REMEDY = "Install the extra: pip install 'eos-assets[transactions]'."

Response = TypeVar("Response")


def require_client() -> None:
    """Refuse to go on without kafka-python, with the remedy."""
    try:
        import kafka  # noqa: F401
    except ImportError as error:
        raise EosError("kafka-python is not installed: transactions cannot be listed or aborted.", REMEDY) from error


def ask_transactions(connection: Connection, request: Callable[["KafkaAdminClient"], Response]) -> Response:
    """Send requests with a client of their own, and send them again while they fail with a transient error."""
    require_client()
    from kafka.errors import AuthorizationError, KafkaError

    deadline = Deadline(TIMEOUT_SECONDS)
    while True:
        try:
            with open_client(connection) as client:
                return request(client)
        except AuthorizationError as error:
            raise EosError(
                f"{connection.security.principal} lacks a permission: {error}.",
                "Use a principal with Read on the topics and Describe on all transactional ids; to abort an orphan, "
                "also Alter on the cluster.",
            ) from error
        except KafkaError as error:
            if not error.retriable or deadline.passed:
                raise EosError(f"Kafka reported: {error}.", "Check the cluster with `eos doctor`.") from error
            time.sleep(PAUSE_SECONDS)


@contextmanager
def open_client(connection: Connection) -> Iterator["KafkaAdminClient"]:
    from kafka import KafkaAdminClient

    quiet = logging.getLogger("kafka")  # at debug it logs its configuration, with the password
    quiet.setLevel(max(quiet.level, logging.WARNING))
    client = KafkaAdminClient(
        bootstrap_servers=connection.bootstrap_servers.split(","),
        request_timeout_ms=REQUEST_MS,
        bootstrap_timeout_ms=REQUEST_MS,
        **client_security(connection.security),
    )
    try:
        yield client
    finally:
        client.close()


def client_security(security: Security) -> dict[str, Any]:
    """The settings of kafka-python."""
    config: dict[str, Any] = {"security_protocol": security.protocol}
    if security.sasl:
        config |= {"sasl_mechanism": security.mechanism, **client_login(security)}
    if security.encrypted:
        config |= {"ssl_context": ssl_context(security)}
    return config


def client_login(security: Security) -> dict[str, Any]:
    if security.client_credentials is None:
        return {"sasl_plain_username": security.username, "sasl_plain_password": security.password}
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        """The token of one client, which lives for some requests only."""

        def __init__(self, credentials: ClientCredentials) -> None:
            self._token = fetch_token(credentials)

        def token(self) -> str:
            return self._token

    return {"sasl_oauth_token_provider": Token(security.client_credentials)}


def fetch_token(credentials: ClientCredentials) -> str:
    """Get a token as librdkafka and the Java client do by themselves."""
    form = {"grant_type": "client_credentials", **({"scope": credentials.scope} if credentials.scope else {})}
    login = base64.b64encode(f"{credentials.client_id}:{credentials.client_secret}".encode()).decode()
    request = urllib.request.Request(
        credentials.token_url, urllib.parse.urlencode(form).encode(), {"Authorization": f"Basic {login}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_MS / 1000) as response:
            return str(json.load(response)["access_token"])
    except (OSError, ValueError, KeyError) as error:
        raise EosError(
            f"No token for {credentials.client_id} from {credentials.token_url}: {error}.", TOKEN_REMEDY
        ) from error


def ssl_context(security: Security) -> ssl.SSLContext:
    """The certificates as Python's TLS wants them: it reads a client's own certificate from a file only."""
    context = ssl.create_default_context(cadata=security.authority or None)
    if security.certificate:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # only its owner may read it
            file.write(f"{security.key}\n{security.certificate}\n")
            file.flush()
            context.load_cert_chain(file.name, password=security.key_password or None)
    return context
