"""Kafka's errors in, what they mean for the data out: the one place that tells them apart."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.auth_errors import Denied, denial

Answer = TypeVar("Answer")


class Fenced(TaskError):
    """Somebody newer owns the transactional id. Nothing of this attempt is visible, and nothing is lost: the newer
    attempt goes on from the last commit. The producer is closed, never aborted."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.FENCED, text)


class Abortable(TaskError):
    """The transaction must be aborted. Nothing of it is visible; the next attempt resumes at the last commit."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.TRANSACTION_ABORTED, text)


class Fatal(TaskError):
    """The producer is beyond use, or the outcome of a commit is unknown. Nobody guesses: the producer is discarded,
    and the next attempt's `init_transactions` and ledger tell what happened."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.COMMIT_UNKNOWN, text)


FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}


def step(call: Callable[[], Answer], what: str, patience: float) -> Answer:
    """One call of the transaction protocol: repeated while the error is retriable, until the patience ends."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return call()
        except KafkaException as failure:
            error = failure.args[0]
            if error.retriable() and time.monotonic() < deadline:
                continue
            raise verdict(error, what) from failure


def verdict(error: KafkaError, what: str) -> Exception:
    """The three kinds of error, told apart, and a fourth that no retry heals: a permission is missing."""
    text = f"{what}: {error.name()}: {error.str()}"
    if error.code() in FENCED:
        return Fenced(text)
    if kind := denial(error):
        return Denied(text, kind)
    if error.txn_requires_abort():
        return Abortable(text)
    return Fatal(text)


@contextmanager
def watchdog(seconds: float, what: str) -> Iterator[None]:
    """Ends the worker if a call never returns (librdkafka may ignore its own timeouts); Spark runs the task again."""

    def end() -> None:
        sys.stderr.write(f"eos: {what} did not return within {seconds:.0f} s; ending this worker\n")
        sys.stderr.flush()
        os._exit(75)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
