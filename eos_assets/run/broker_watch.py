"""Watches whether the brokers answer while a run lasts: reports when they do not, and ends the run after a time."""

import logging
import threading
import uuid
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException

from eos_assets.context import PipelineContext
from eos_assets.deadlines import Deadline
from eos_assets.kafka.auth_errors import NoBrokerAnswers
from eos_assets.kafka.connection import REQUEST_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

#: How often the brokers are asked, and how long they have for their answer.
INTERVAL_SECONDS = 5.0
ANSWER_SECONDS = 5.0


class BrokerWatch:
    """Asks the brokers in a thread of its own.

    The tasks of a job try for as long as their own deadlines allow, each of them and in each attempt. So the job of a
    run whose brokers have not answered for `Connection.wait_seconds` is interrupted.
    """

    def __init__(self, context: PipelineContext) -> None:
        self.context = context
        #: Whether the brokers did not answer for too long.
        self.gave_up = False
        self._tag = JobTag(context.spark)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="eos-brokers")

    def __enter__(self) -> Self:
        self._tag.add()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._tag.remove()

    def error(self) -> NoBrokerAnswers:
        kafka = self.context.kafka
        return NoBrokerAnswers(
            f"No Kafka broker answered at {kafka.bootstrap_servers} for {kafka.wait_seconds:.0f} s. Nothing of an open "
            "transaction is visible.",
            "Check the brokers with `eos doctor`, and run again: the next run continues after the last commit.",
        )

    def _watch(self) -> None:
        outage: Deadline | None = None
        while not self._ended.wait(INTERVAL_SECONDS):
            if self._answers():
                if outage:
                    self._warn("Kafka brokers answer again at %s")
                outage = None
            elif outage is None:
                outage = Deadline(max(0.0, self.context.kafka.wait_seconds - ANSWER_SECONDS))
                self._warn("No Kafka broker answers at %s: trying for %.0f s", self.context.kafka.wait_seconds)
            if outage and outage.passed:
                self.gave_up = True
                self._tag.interrupt()
                return

    def _answers(self) -> bool:
        ledger = self.context.names.ledger
        try:
            self.context.kafka.ask(lambda admin: admin.list_topics(ledger, timeout=REQUEST_SECONDS), ANSWER_SECONDS)
        except KafkaException:
            return False
        return True

    def _warn(self, message: str, *values: object) -> None:
        if not self._ended.is_set():
            fields = {"pipeline": self.context.pipeline.name}
            logger.warning(message, self.context.kafka.bootstrap_servers, *values, extra=fields)


class JobTag:
    """A tag on the Spark jobs of one thread, by which another thread can interrupt them."""

    def __init__(self, spark: "SparkSession") -> None:
        self.spark = spark
        self.name = f"eos-{uuid.uuid4().hex}"

    def add(self) -> None:
        (self.spark.addTag if remote() else self.spark.sparkContext.addJobTag)(self.name)

    def remove(self) -> None:
        with suppress(Exception):  # Spark may have ended
            (self.spark.removeTag if remote() else self.spark.sparkContext.removeJobTag)(self.name)

    def interrupt(self) -> None:
        with suppress(Exception):  # Spark may have ended
            (self.spark.interruptTag if remote() else self.spark.sparkContext.cancelJobsWithTag)(self.name)


def remote() -> bool:
    """Whether this is Spark Connect. A classic session knows a tag only in the thread that added it, but its context
    knows it everywhere."""
    from pyspark.sql.utils import is_remote

    return bool(is_remote())
