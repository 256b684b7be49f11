"""The measurement of one cell: fill a source, square it to the end under failures, observe the sink."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.experiment.baselines import delivery_of
from eos_assets.experiment.cell import Cell, Result
from eos_assets.experiment.faults import Faults
from eos_assets.experiment.fill import fill
from eos_assets.experiment.observation import observe_sink
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.spark_version import task_attempts
from eos_assets.run.report import RunReport
from eos_assets.run.run import RunOptions, run_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: About how many transactions a partition takes: a failure strikes one of them and not the whole partition.
TRANSACTIONS = 2
#: A transaction may hold a tenth more than its share of the records, because partitions differ in size.
MARGIN = 1.1
#: Spark jobs of a partition that can never advance: one is enough to see that.
JOBS_IF_HOPELESS = 1
PARALLEL_FILLS = 8
PARALLEL_PARTITIONS = 4
FENCE_SECONDS = 30.0


@dataclass(frozen=True)
class CellRunner:
    """What all cells of one experiment share."""

    spark: "SparkSession"
    connection: Connection
    id: str
    records: int
    partitions: int
    seed: int
    max_attempts: int

    @contextmanager
    def sources(self, count: int) -> Iterator[None]:
        """Keep a filled source for each of `count` cells.

        All are filled before the first cell, so that no fill disturbs a measurement, and in parallel, because each
        waits for half a second until a broker has assigned its producer an id.
        """
        sources = [self.pipeline(number).source for number in range(count)]
        with self.topics(sources):
            with ThreadPoolExecutor(PARALLEL_FILLS) as pool:
                for filled in [pool.submit(fill, self.connection, source.name, self.records) for source in sources]:
                    filled.result()
            yield

    def measure(self, cell: Cell, number: int) -> Result:
        """Run the squares over source `number` until they are complete or give up, and observe the sink."""
        pipeline = self.pipeline(number)
        faults = Faults(cell.probability, self.seed, kind=cell.kind)
        names = pipeline.names(cell.mode)
        with self.topics(pipeline.own_topics(cell.mode), names.group):
            options = RunOptions(
                mode=cell.mode,
                delivery=delivery_of(cell.mode),
                faults=faults,
                accepted_spark=Settings.load().accept_spark,
                max_attempts=JOBS_IF_HOPELESS if cell.hopeless else self.max_attempts,
            )
            started = time.monotonic()
            reports = self.run(pipeline, options)
            seconds = time.monotonic() - started
            sink = names.sink(pipeline.sinks[0].name)
            observation = observe_sink(self.connection, pipeline.source.name, sink, names.group, self.records)
            complete = all(report.complete for report in reports)
            if cell.mode is Mode.EXACTLY_ONCE and not complete:
                self.end_open_transactions(pipeline)
        return Result(
            cell=cell,
            observation=observation,
            complete=complete,
            jobs=sum(report.attempts for report in reports),
            retries=sum(count_retries(report, task_attempts(self.spark)) for report in reports),
            seconds=seconds,
            failures_due=any(faults.strikes(p, 0, 1, 0) for p in range(self.partitions)),
        )

    def run(self, pipeline: Pipeline, options: RunOptions) -> list[RunReport]:
        """Run each partition on its own.

        In a common run, a job that gives up ends the tasks of the other partitions at any moment, and their number of
        attempts depends on chance. Run on their own, the same seed always gives the same counts.
        """

        def run_partition(partition: int) -> RunReport:
            return run_pipeline(pipeline, self.spark, self.connection, replace(options, partitions=[partition]))

        with ThreadPoolExecutor(min(self.partitions, PARALLEL_PARTITIONS)) as pool:
            return list(pool.map(run_partition, range(self.partitions)))

    def pipeline(self, number: int) -> Pipeline:
        """The squares on topics of their own, with small transactions."""
        from eos_assets.pipelines.squares import squares

        name = f"experiment_{self.id}_{number}"
        topics = name.replace("_", "-")
        records = max(1, int(MARGIN * self.records / (self.partitions * TRANSACTIONS)))
        return replace(
            squares,
            name=name,
            source=Topic(f"{topics}-source", self.partitions),
            sinks=(Topic(f"{topics}-sink", self.partitions),),
            batching=Batching(records=records),
        )

    @contextmanager
    def topics(self, declared: list[Topic], *groups: str) -> Iterator[None]:
        """Create topics, and delete them at the end together with the groups that read them."""
        admin = self.connection.admin
        try:
            create_topics(declared, self.connection)
            yield
        finally:
            deletions = [*admin.delete_topics([topic.name for topic in declared]).values()]
            if groups:
                deletions += admin.delete_consumer_groups(list(groups)).values()
            for deletion in deletions:
                with suppress(KafkaException):  # already gone; and a cleanup must not hide an earlier failure
                    deletion.result()

    def end_open_transactions(self, pipeline: Pipeline) -> None:
        """Abort what a killed worker left open, because readers would wait for it until its timeout."""
        for partition in range(self.partitions):
            transactional_id = pipeline.names().transactional_id(partition)
            Producer(self.connection.config(transactional_id=transactional_id)).init_transactions(FENCE_SECONDS)


def count_retries(report: RunReport, attempts: int) -> int:
    """Count the failed tasks in the run of one partition. A failed job has used up all its task attempts."""
    last = report.outcomes[-1].task_attempt if report.outcomes else 0
    return len(report.failures) * attempts + last
