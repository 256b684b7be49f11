"""One delivery mode, kind and probability of failure in; filled, run to the end, counted, and a result out."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.experiment.account import Account, account
from eos_assets.experiment.baselines import delivery_of
from eos_assets.experiment.faults import Faults
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.spark_version import task_attempts
from eos_assets.run.report import RunReport
from eos_assets.run.run import RunOptions, run_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Transactions of each partition, about: a failure strikes one of them, not the whole partition. Slices are a tenth
#: longer than that, because partitions are not all alike.
SLICES = 2
#: What cannot end needs no patience: Spark jobs of a partition whose every transaction fails before its commit.
HOPELESS_JOBS = 1
#: Sources that are filled at the same time.
FILLS = 8
#: Partitions that run at the same time.
TOGETHER = 4
FENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Cell:
    """One square of the matrix."""

    mode: Mode
    kind: str
    probability: float

    @property
    def hopeless(self) -> bool:
        """Whether no position can ever move on. At most once, it moves on before anything is produced."""
        return self.probability == 1 and self.kind != "after_commit" and self.mode is not Mode.AT_MOST_ONCE

    @property
    def harmful(self) -> bool:
        """Whether failures of this kind strike between the two steps of a weaker mode."""
        return self.probability > 0 and self.kind != "after_commit"


@dataclass(frozen=True)
class Result:
    """What became of one cell. `jobs` are Spark jobs, `retries` are tasks that failed and were tried again."""

    cell: Cell
    account: Account
    complete: bool
    jobs: int
    retries: int
    seconds: float
    #: Whether the first transaction of some partition was due to fail: then there must be retries.
    failures_due: bool

    def row(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        outcome = "complete" if self.complete else "gave up"
        facts = {"outcome": outcome, "jobs": self.jobs, "retries": self.retries, "seconds": round(self.seconds, 3)}
        return {**asdict(self.cell), "mode": str(self.cell.mode), **facts, **asdict(self.account)}


@dataclass(frozen=True)
class Bench:
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
        """A filled source for each of so many cells. They are filled side by side, because each fill waits for half a
        second until a broker has given its producer an id; and before the first cell, so that no cell is disturbed."""
        sources = [self.pipeline(number).source for number in range(count)]
        with self.topics(sources):
            with ThreadPoolExecutor(FILLS) as pool:
                for filled in [pool.submit(fill, self.connection, source.name, self.records) for source in sources]:
                    filled.result()
            yield

    def measure(self, cell: Cell, number: int) -> Result:
        """Runs the squares over the source of this number to the end or until giving up, and counts."""
        pipeline = self.pipeline(number)
        failures = Faults(cell.probability, self.seed, kind=cell.kind)
        with self.topics(pipeline.own_topics(cell.mode), pipeline.names(cell.mode).group):
            options = RunOptions(
                mode=cell.mode,
                delivery=delivery_of(cell.mode),
                faults=failures,
                accepted_spark=Settings.load().accept_spark,
                max_attempts=HOPELESS_JOBS if cell.hopeless else self.max_attempts,
            )
            begun = time.monotonic()
            reports = self.run(pipeline, options)
            seconds = time.monotonic() - begun
            names = pipeline.names(cell.mode)
            sink = names.sink(pipeline.sinks[0].name)
            counted = account(self.connection, pipeline.source.name, sink, names.group, self.records)
            complete = all(report.complete for report in reports)
            if cell.mode is Mode.EXACTLY_ONCE and not complete:
                self.end_open_transactions(pipeline)
        return Result(
            cell=cell,
            account=counted,
            complete=complete,
            jobs=sum(report.attempts for report in reports),
            retries=sum(retries(report, task_attempts(self.spark)) for report in reports),
            seconds=seconds,
            failures_due=any(failures.strikes(p, 0, 1, 0) for p in range(self.partitions)),
        )

    def run(self, pipeline: Pipeline, options: RunOptions) -> list[RunReport]:
        """Each partition is a run of its own. In a common one a job that gives up would end the tasks beside it at any
        moment, and how often those were tried would be left to chance; so a seed always gives the same counts."""

        def one(partition: int) -> RunReport:
            return run_pipeline(pipeline, self.spark, self.connection, replace(options, partitions=[partition]))

        with ThreadPoolExecutor(min(self.partitions, TOGETHER)) as pool:
            return list(pool.map(one, range(self.partitions)))

    def pipeline(self, number: int) -> Pipeline:
        """The squares on topics that nobody else has, in small slices."""
        from eos_assets.pipelines.squares import squares

        name = f"experiment_{self.id}_{number}"
        topics = name.replace("_", "-")
        return replace(
            squares,
            name=name,
            source=Topic(f"{topics}-source", self.partitions),
            sinks=(Topic(f"{topics}-sink", self.partitions),),
            transaction_records=max(1, int(1.1 * self.records / (self.partitions * SLICES))),
        )

    @contextmanager
    def topics(self, declared: list[Topic], *groups: str) -> Iterator[None]:
        """Topics for as long as they are needed; the groups that read them go with them."""
        admin = self.connection.admin
        try:
            create_topics(declared, self.connection)
            yield
        finally:
            gone = [*admin.delete_topics([topic.name for topic in declared]).values()]
            if groups:
                gone += admin.delete_consumer_groups(list(groups)).values()
            for future in gone:
                tried(future)

    def end_open_transactions(self, pipeline: Pipeline) -> None:
        """A killed worker leaves its transaction open until the timeout: nobody shall wait for that."""
        for partition in range(self.partitions):
            transactional_id = pipeline.names().transactional_id(partition)
            Producer(self.connection.config(transactional_id=transactional_id)).init_transactions(FENCE_SECONDS)


def tried(future: Any) -> None:
    """Clearing up never hides what happened before: what is not there any more is as good as deleted."""
    try:
        future.result()
    except KafkaException:
        return


def retries(report: RunReport, tries: int) -> int:
    """The tasks of one partition's run that failed. A failed job has used up its tries; the last one says how many."""
    last = report.outcomes[-1].task_attempt if report.outcomes else 0
    return len(report.failures) * tries + last
