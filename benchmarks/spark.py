"""The contenders that run on Spark: this project's two kinds of pipelines, and Spark's own Kafka sink."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import psutil
from pyspark.sql import SparkSession

from benchmarks.peers.client_settings import JAVA_PRODUCER
from benchmarks.pipelines import pipeline_of
from benchmarks.trial import Trial
from benchmarks.usage import tree_of
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.experiment.baselines import delivery_of
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import OffsetRange, bounds
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets.run.run import RunOptions, run_pipeline
from eos_assets.transform.source import read_records


class SharedSpark:
    """One session for all contenders that run on Spark, so that its JVM is equally warm for each."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def session(self) -> SparkSession:
        return start_session(self._settings, "in-process")

    @cached_property
    def jvm(self) -> psutil.Process:
        virtual_machine = self.session._jvm
        assert virtual_machine is not None
        return psutil.Process(virtual_machine.java.lang.ProcessHandle.current().pid())

    def processes(self) -> list[psutil.Process]:
        """The JVM with its Python workers, and this process, which is the driver."""
        return [psutil.Process(), *tree_of(self.jvm)]

    def stop(self) -> None:
        if "session" in vars(self):
            self.session.stop()


class EosContender:
    """This project, with one kind of pipeline and one delivery."""

    def __init__(self, spark: SharedSpark, kind: str, mode: Mode) -> None:
        self.spark = spark
        self.kind = kind
        self.mode = mode

    def start(self, connection: Connection) -> None:
        self.connection = connection
        assert self.spark.session

    def pipeline(self, trial: Trial) -> Pipeline:
        declared = pipeline_of(self.kind, trial.workload.name)
        return replace(declared, name=trial.id, source=trial.source, sinks=(trial.sink,))

    def topics(self, trial: Trial) -> list[Topic]:
        return self.pipeline(trial).own_topics(self.mode)

    def run(self, trial: Trial) -> None:
        options = RunOptions(mode=self.mode, delivery=delivery_of(self.mode))
        report = run_pipeline(self.pipeline(trial), self.spark.session, self.connection, options)
        assert report.complete, report.failures

    def settle(self) -> None:
        """Nothing is left open."""

    def processes(self) -> Iterable[psutil.Process]:
        return self.spark.processes()

    def close(self) -> None:
        self.spark.stop()


class SparkSink:
    """Spark's own Kafka sink with the transform of DataFrames: idempotent in a task, at least once over retries."""

    def __init__(self, spark: SharedSpark) -> None:
        self.spark = spark

    def start(self, connection: Connection) -> None:
        self.connection = connection
        assert self.spark.session

    def topics(self, trial: Trial) -> list[Topic]:
        return [trial.sink]

    def run(self, trial: Trial) -> None:
        source, transform = trial.source.name, pipeline_of("DataFrame", trial.workload.name).transform
        ranges = [OffsetRange(p, each.start, each.stable) for p, each in bounds(self.connection, source).items()]
        records = transform(read_records(self.spark.session, self.connection, source, ranges))
        producer = {f"kafka.{name}": value for name, value in JAVA_PRODUCER.items()}
        servers = self.connection.bootstrap_servers
        writer = records.select("key", "value").write.format("kafka").options(**producer)
        writer.options(**{"kafka.bootstrap.servers": servers, "topic": trial.sink.name}).save()

    def settle(self) -> None:
        """Nothing is left open."""

    def processes(self) -> Iterable[psutil.Process]:
        """The JVM and the driver: no Python worker runs."""
        return [psutil.Process(), self.spark.jvm]

    def close(self) -> None:
        self.spark.stop()
