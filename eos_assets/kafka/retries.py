"""Requests that are repeated while a broker elects a leader, loads a partition or reconnects."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from eos_assets.deadlines import Deadline

TIMEOUT_SECONDS = 30
PAUSE_SECONDS = 0.05
#: The timeout of a client's first request: brokers nearby answer within it.
FIRST_TIMEOUT_SECONDS = 0.02

#: Errors of a broker that pass without a remedy.
TRANSIENT = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_CONTROLLER,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
#: Errors of the client itself have negative codes. They are about connections and pass, except for these.
PERMANENT = {
    KafkaError._INVALID_ARG,
    KafkaError._AUTHENTICATION,
    KafkaError._STATE,
    KafkaError._CONFLICT,
    KafkaError._FATAL,
    KafkaError._FENCED,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError._AUTO_OFFSET_RESET,
}

Response = TypeVar("Response")


def is_transient(error: KafkaError) -> bool:
    """Whether the same request may succeed a moment later."""
    code = error.code()
    return error.retriable() or code in TRANSIENT or (code < 0 and code not in PERMANENT)


def retry_transient(request: Callable[[], Response], seconds: float = TIMEOUT_SECONDS) -> Response:
    """Repeat a request while it fails with a transient error. After the deadline, raise that error."""
    deadline = Deadline(seconds)
    while True:
        try:
            return request()
        except KafkaException as failure:
            if not is_transient(failure.args[0]) or deadline.passed:
                raise
            time.sleep(PAUSE_SECONDS)


def retry_with_growing_timeout(request: Callable[[float], Response], seconds: float = TIMEOUT_SECONDS) -> Response:
    """Send the first request of a new client with a short timeout, and repeat it with longer ones.

    A client that asks for a leader just when it moves from the bootstrap address to the brokers waits for a timer of
    half a second before it tries again. A new request tries again immediately.
    """
    deadline, timeout = Deadline(seconds), FIRST_TIMEOUT_SECONDS
    while True:
        attempt = Deadline(timeout / 2)
        try:
            return request(timeout)
        except KafkaException as failure:
            remaining = deadline.remaining
            if not is_transient(failure.args[0]) or not remaining:
                raise
            if not attempt.passed:  # a broker answered, so the timeout was not the reason
                time.sleep(min(PAUSE_SECONDS, remaining))
            timeout = min(4 * timeout, remaining)
