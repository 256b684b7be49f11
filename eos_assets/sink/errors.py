"""What an error of Kafka's producer means for the data: the one place that classifies them."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from eos_assets.deadlines import Deadline
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.auth_errors import PermissionDenied, denied_resource

Result = TypeVar("Result")


class Fenced(TaskError):
    """A newer attempt owns the transactional id. Nothing of this attempt is visible and nothing is lost: the newer
    attempt continues from the last commit. The producer is closed, never aborted."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.FENCED, message)


class Abortable(TaskError):
    """The transaction must be aborted. Nothing of it is visible; the next attempt resumes at the last commit."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.TRANSACTION_ABORTED, message)


class Fatal(TaskError):
    """The producer is unusable, or the outcome of a commit is unknown. The producer is discarded: the next attempt
    learns the outcome from `init_transactions` and the ledger."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.COMMIT_UNKNOWN, message)


FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}


def call_transactional(call: Callable[[], Result], name: str, seconds: float) -> Result:
    """Make one call of the transaction API, and repeat it until the deadline while its error is retriable."""
    deadline = Deadline(seconds)
    while True:
        try:
            return call()
        except KafkaException as failure:
            error = failure.args[0]
            if error.retriable() and not deadline.passed:
                continue
            raise classify(error, name) from failure


def classify(error: KafkaError, action: str) -> Exception:
    """Classify an error as fenced, abortable or fatal, or as a missing permission, which no retry can heal."""
    message = f"{action}: {error.name()}: {error.str()}"
    if error.code() in FENCED:
        return Fenced(message)
    if kind := denied_resource(error):
        return PermissionDenied(message, kind)
    if error.txn_requires_abort():
        return Abortable(message)
    return Fatal(message)


@contextmanager
def watchdog(seconds: float, name: str) -> Iterator[None]:
    """End the worker if a call does not return, because librdkafka may ignore its own timeouts. Spark then runs the
    task again."""

    def end_worker() -> None:
        sys.stderr.write(f"eos: {name} did not return within {seconds:.0f} s; ending this worker\n")
        sys.stderr.flush()
        os._exit(75)

    timer = threading.Timer(seconds, end_worker)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
