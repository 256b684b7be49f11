"""Errors about permissions and credentials name what to check."""

import pytest
from confluent_kafka import KafkaError

from eos_assets.kafka.auth import Security
from eos_assets.kafka.auth_errors import ClientErrors, denied_resource, permission_error, unreachable

SECURITY = Security(protocol="SASL_SSL", username="alice")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "group"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional id"),
        (KafkaError._TRANSPORT, None),
    ],
)
def test_a_missing_permission_names_the_kind_of_resource(code: int, kind: str | None) -> None:
    assert denied_resource(KafkaError(code)) == kind
    error = permission_error(KafkaError(code), "User:alice")
    assert (error is None) == (kind is None)
    if error is not None:
        assert f"User:alice lacks a permission on a {kind}" in error.problem
        assert "eos acls PIPELINE --principal User:alice" in error.remedy


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (KafkaError._AUTHENTICATION, "rejects the credentials of User:alice"),
        (KafkaError._SSL, "The TLS connection to Kafka failed"),
    ],
)
def test_refused_credentials_are_reported_although_later_errors_are_about_the_connection(
    code: int, problem: str
) -> None:
    errors = ClientErrors()
    errors.record(KafkaError(code, "reason (after 12ms in state AUTH_REQ)"))
    errors.record(KafkaError(KafkaError._TRANSPORT, "Disconnected"))
    refusal = errors.refusal(SECURITY)
    assert refusal is not None
    assert problem in refusal.problem
    assert refusal.problem.endswith(": reason."), "without the times of librdkafka"


def test_a_broker_that_does_not_answer_is_reported_with_the_last_reason() -> None:
    errors = ClientErrors()
    errors.record(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    assert errors.refusal(SECURITY) is None
    error = unreachable("kafka:9092", KafkaError(KafkaError._TRANSPORT, "Timed out"), errors)
    assert error.problem == "No Kafka broker answers at kafka:9092: Timed out; Connection refused."
