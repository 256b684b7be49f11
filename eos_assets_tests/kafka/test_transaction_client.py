"""kafka-python gets the settings of the other clients, and logs no secret."""

import logging
from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.kafka import transaction_client
from eos_assets.kafka.auth import Security
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.transaction_client import ask_transactions, client_security

PEM = Path(__file__).parents[1] / "files" / "localhost.pem"


def test_a_login_is_passed_on() -> None:
    security = Security("SASL_PLAINTEXT", "SCRAM-SHA-256", "squares", "secret")
    assert client_security(security) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "squares",
        "sasl_plain_password": "secret",
    }
    assert client_security(Security()) == {"security_protocol": "PLAINTEXT"}


def test_certificates_are_passed_on() -> None:
    text = PEM.read_text()
    key, _, certificate = text.partition("-----END PRIVATE KEY-----\n")
    security = Security("SSL", authority=certificate, certificate=certificate, key=f"{key}-----END PRIVATE KEY-----\n")
    config = client_security(security)
    context = config.pop("ssl_context")
    assert config == {"security_protocol": "SSL"}
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1, "only the configured authority is trusted"


def test_the_password_is_not_logged_at_debug(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_client, "REQUEST_MS", 300)
    monkeypatch.setattr(transaction_client, "TIMEOUT_SECONDS", 0.1)
    security = Security("SASL_PLAINTEXT", "PLAIN", "squares", "kanarienvogel")
    connection = Connection("127.0.0.1:1", security=security)
    with caplog.at_level(logging.DEBUG, "kafka"), pytest.raises(EosError, match="Kafka reported"):
        ask_transactions(connection, lambda client: client.list_transactions())
    assert "kanarienvogel" not in caplog.text
