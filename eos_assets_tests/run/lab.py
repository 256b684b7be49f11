"""A pipeline on topics of its own, whose sink is read by a client that shares no code with the project."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import eos_assets as eos
from eos_assets.context import PipelineContext
from eos_assets.declare.arrow_pipeline import arrow_pipeline
from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline, pipeline
from eos_assets.declare.topic import Topic
from eos_assets.experiment.baselines import delivery_of
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.platform.settings import Settings
from eos_assets.run.report import RunReport
from eos_assets.run.run import RunOptions, run_pipeline
from eos_assets.sink.job import NoFaults
from eos_assets.verify.findings import Verification
from eos_assets.verify.verify import verify_pipeline
from eos_assets_tests.sink.watcher import Seen, Watcher

#: The tests may run on a version of Spark that is not among the tested ones: docs/compatibility.md.
ACCEPTED = Settings.load().accept_spark


def squared(records: DataFrame) -> DataFrame:
    """As the project's own pipeline: the key stays, the value is squared, a value that is not an integer is a dead
    letter."""
    number = f.col("value").cast("string").try_cast("decimal(19,0)")
    wrong = f.when(number.isNull(), f.lit("no integer"))
    return records.select("key", (number * number).cast("string").alias("value"), wrong.alias("error"), "origin")


def squared_batches(records: pa.RecordBatch) -> pa.Table:
    """The same for Arrow batches."""
    numbers = [int(value) if (value or b"").isdigit() else None for value in records["value"].to_pylist()]
    return eos.output(
        records,
        value=[None if number is None else str(number**2) for number in numbers],
        error=["no integer" if number is None else None for number in numbers],
    )


def raising(records: DataFrame) -> DataFrame:
    """In ANSI mode a cast of a text that is not a number raises, and fails the whole job."""
    return records.select("key", f.col("value").cast("string").cast("long").cast("string").alias("value"), "origin")


@dataclass
class Lab:
    """One pipeline under test."""

    spark: SparkSession
    connection: Connection
    pipeline: Pipeline
    #: The topics that were created, to be deleted after the test.
    created: list[str] = field(default_factory=list)
    watcher: Watcher | None = None

    @property
    def context(self) -> PipelineContext:
        return PipelineContext(self.pipeline, self.spark, self.connection)

    @property
    def source(self) -> str:
        return self.pipeline.source.name

    @property
    def sink(self) -> str:
        return self.pipeline.sinks[0].name

    def create(self, mode: Mode = Mode.EXACTLY_ONCE) -> None:
        topics = [self.pipeline.source, *self.pipeline.own_topics(mode)]
        create_topics(topics, self.connection)
        self.created += [topic.name for topic in topics]

    def fill(self, count: int) -> None:
        fill(self.connection, self.source, count)

    def produce(self, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:
        """Produce records whose key is their value, unless a key is given."""
        producer = Producer(self.connection.config(message_max_bytes=10_000_000))
        for value in values:
            producer.produce(self.source, value, more.get("key", value), partition, headers=more.get("headers"))
        producer.flush()

    def produce_transaction(self, values: Iterable[bytes], *, commit: bool, partition: int = 0) -> None:
        producer = self.open_transaction(values, partition)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def open_transaction(self, values: Iterable[bytes], partition: int = 0) -> Producer:
        producer = Producer(self.connection.config(transactional_id=uuid.uuid4().hex))
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.source, value, value, partition)
        producer.flush()
        return producer

    def run(self, faults: NoFaults | None = None, **options: Any) -> RunReport:
        delivery = delivery_of(options.get("mode", Mode.EXACTLY_ONCE))
        given = {"faults": faults or NoFaults(), "accepted_spark": ACCEPTED, "delivery": delivery}
        chosen = RunOptions(**{**given, **options})
        return run_pipeline(self.pipeline, self.spark, self.connection, chosen)

    def proof(self, **options: Any) -> Verification:
        return verify_pipeline(self.pipeline, self.spark, self.connection, **options)

    def verify(self, mode: Mode = Mode.EXACTLY_ONCE, isolation: str = "read_committed") -> dict[str, Finding]:
        findings = self.proof(mode=mode, isolation=isolation, full=True).findings
        if mode is Mode.EXACTLY_ONCE:
            findings += [check.finding(self.pipeline, self.spark, self.connection) for check in self.pipeline.checks]
        return {finding.name: finding for finding in findings}

    def broken(self, mode: Mode = Mode.EXACTLY_ONCE) -> set[str]:
        """The names of the invariants that do not hold, without warnings."""
        findings = self.verify(mode).items()
        return {name for name, finding in findings if not finding.holds and finding.severity == "error"}

    def read(self, topic: str | None = None, isolation: str = "read_committed") -> list[Message]:
        """Every visible record of a topic, partition after partition."""
        name = topic or self.sink
        consumer = Consumer(
            {
                "bootstrap.servers": self.connection.bootstrap_servers,
                "group.id": "plain-reader",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "log_level": 2,
            }
        )
        partitions = list(consumer.list_topics(name, timeout=30).topics[name].partitions)
        consumer.assign([TopicPartition(name, p, 0) for p in partitions])
        messages: list[Message] = []
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            for message in consumer.consume(10_000, timeout=0.1):
                error = message.error()
                if error is None:
                    messages.append(message)
                else:
                    assert error.name() == "_PARTITION_EOF", error
                    ended.add(message.partition())
        consumer.close()
        return sorted(messages, key=lambda m: (m.partition(), m.offset()))

    def values(self, topic: str | None = None) -> list[bytes | None]:
        return [message.value() for message in self.read(topic)]

    def assert_squares(self, numbers: Iterable[int], mode: Mode = Mode.EXACTLY_ONCE) -> None:
        """The sink holds the squares of exactly these numbers, each once, each partition in order. The reader that
        followed it all the time has seen the same."""
        keys_of: dict[int, list[int]] = {}
        messages = self.read(self.pipeline.names(mode).sink(self.sink))
        if self.watcher and mode is Mode.EXACTLY_ONCE:
            final: Seen = {p: [] for p in self.watcher.seen}
            for message in messages:
                final[message.partition() or 0].append((message.offset() or 0, message.key(), message.value()))
            self.watcher.assert_read(final)
        for message in messages:
            key, value, partition = message.key(), message.value(), message.partition()
            assert key is not None
            assert value is not None
            assert partition is not None
            assert int(value) == int(key) ** 2
            keys_of.setdefault(partition, []).append(int(key))
        for partition, keys in keys_of.items():
            assert keys == sorted(keys), f"partition {partition} is not in order"
        everything = sorted(key for keys in keys_of.values() for key in keys)
        wanted = sorted(numbers)
        assert len(everything) == len(set(everything)), f"{len(everything) - len(set(everything))} duplicates"
        assert set(wanted) - set(everything) == set(), "missing"
        assert set(everything) - set(wanted) == set(), "invented"

    def lag(self) -> int:
        from eos_assets.run.plan import make_plan

        return sum(plan.lag for plan in make_plan(self.pipeline, self.connection))

    def with_(self, **changes: Any) -> "Lab":
        """The same topics, another declaration."""
        return replace(self, pipeline=replace(self.pipeline, **changes))


MakeLab = Callable[..., Lab]

#: The two kinds of pipelines: the declaration of each, and its squares.
KINDS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "frames": (pipeline, squared),
    "batches": (arrow_pipeline, squared_batches),
}
#: Runs a test for both kinds. The transform of its lab is that of the squares.
both_kinds = pytest.mark.parametrize("make_lab", list(KINDS), indirect=True)


def declare(
    transform: Callable[[Any], Any] | None = None,
    *,
    kind: str = "frames",
    partitions: int = 3,
    sinks: int = 1,
    **declared: Any,
) -> Pipeline:
    """A pipeline with topics that no other test uses."""
    decorator, squares = KINDS[kind]
    name = f"t{uuid.uuid4().hex[:10]}"
    topics = [Topic(f"{name}-sink{n or ''}", partitions=3) for n in range(sinks)]
    source = declared.pop("source", None) or Topic(f"{name}-source", partitions=partitions)
    declaration = decorator(name=name, source=source, sink=declared.pop("sink", topics), **declared)
    declared_pipeline: Pipeline = declaration(transform or squares)
    return declared_pipeline
