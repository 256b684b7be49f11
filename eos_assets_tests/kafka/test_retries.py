"""Requests are repeated while their error is transient, until the deadline."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from eos_assets.kafka.retries import FIRST_TIMEOUT_SECONDS, retry_transient, retry_with_growing_timeout


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def test_each_request_has_a_longer_timeout_than_the_one_before() -> None:
    timeouts: list[float] = []

    def request(timeout: float) -> str:
        timeouts.append(timeout)
        if len(timeouts) < 4:
            raise failure(KafkaError._TIMED_OUT)
        return "response"

    assert retry_with_growing_timeout(request) == "response"
    assert timeouts == [FIRST_TIMEOUT_SECONDS * factor for factor in (1, 4, 16, 64)]


def test_a_permanent_error_is_raised_immediately_and_a_transient_one_at_the_deadline() -> None:
    requests: list[int] = []

    def request(_: float, code: int = KafkaError.TOPIC_AUTHORIZATION_FAILED) -> None:
        requests.append(code)
        raise failure(code)

    with pytest.raises(KafkaException):
        retry_with_growing_timeout(request)
    assert len(requests) == 1
    with pytest.raises(KafkaException) as refused:
        retry_with_growing_timeout(lambda timeout: request(timeout, KafkaError.LEADER_NOT_AVAILABLE), seconds=0.2)
    assert refused.value.args[0].code() == KafkaError.LEADER_NOT_AVAILABLE
    assert 2 < len(requests) < 10, "repeated, after a pause"


def test_a_transient_error_is_repeated_until_a_response_arrives() -> None:
    codes = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError._TRANSPORT]

    def request() -> str:
        if codes:
            raise failure(codes.pop())
        return "response"

    assert retry_transient(request) == "response"
    codes.append(KafkaError._INVALID_ARG)
    with pytest.raises(KafkaException):
        retry_transient(request)
