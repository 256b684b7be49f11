"""Plans and runs the Spark jobs of a run: the rows of some source partitions, written by one task for each."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.errors import Code, EosError, Reaction
from eos_assets.log.ledger import LedgerEntry
from eos_assets.run.partition_alignment import align_to_source, run_task
from eos_assets.run.plan import PartitionPlan
from eos_assets.sink.job import NO_PARTITION, Job, Outcome
from eos_assets.sink.task import closing_task, writing_task
from eos_assets.transform.arrow_batches import LARGE_BYTES, arrow_batch_limit
from eos_assets.transform.determinism import check_determinism
from eos_assets.transform.result_schema import apply_transform, worker_rows
from eos_assets.transform.source import read_records
from eos_assets.transform.spark_errors import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


logger = logging.getLogger(__name__)

#: Measured with benchmarks/shuffle.py.
SHUFFLE_WARNING = (
    "The plan of %s does not keep the records of each source partition together and in order, so a run sorts all rows "
    "of a range before it writes the first: it takes about twice as long as a transform without a shuffle. Leave out "
    "repartition(), coalesce(), union() and orderBy(), and join small tables with broadcast()."
)
#: Kafka's client takes records as an array only without these columns.
SLOW_COLUMNS = ("headers", "timestamp")
SLOW_COLUMNS_WARNING = (
    "The result of %s has the column(s) %s, so its records are produced one by one, which takes several times as long. "
    "Leave out what readers do not need: eos.output() carries only key, value and origin along."
)


class JobRunner(ABC):
    """Runs one Spark job after another. What a job writes depends on the kind of pipeline, stateless or stateful.

    Args:
        context: the pipeline and where it runs.
        template: a job of the run, without what differs from attempt to attempt.
    """

    #: Whether the records of a range can only be computed from its start on, because of the state there.
    needs_range_start = False
    #: Whether the plan of the transform needs a shuffle, as that of a fold does.
    needs_shuffle = False

    def __init__(self, context: PipelineContext, template: Job) -> None:
        self.context = context
        self.template = template
        self._warned: set[str] = set()

    def run(self, plans: Sequence[PartitionPlan], attempt: int) -> list[Outcome]:
        """Run one job over the ranges of some plans, and commit the partitions without rows."""
        job = self.job(plans, attempt)
        return self._commit_empty_partitions(job, self._write(plans, job))

    def write_dead_letter(self, plan: PartitionPlan, reason: str, attempt: int) -> list[Outcome]:
        """Write the one record of a plan as a dead letter, without calling the transform."""
        job = replace(self.job([plan], attempt), isolated=True)
        rows = worker_rows(dead_letter(self.read([plan]), reason))
        return collect(run_task(rows, writing_task(job)))

    @abstractmethod
    def job_end(self, plan: PartitionPlan, goal: int) -> int:
        """The end of one job on the way to the goal of a partition."""

    @abstractmethod
    def transform(self, plans: Sequence[PartitionPlan]) -> "DataFrame":
        """Apply the user's function to the records of these plans."""

    @abstractmethod
    def _write(self, plans: Sequence[PartitionPlan], job: Job) -> list[Outcome]:
        """Write the result of the user's function in one Spark job."""

    def abandon_snapshot(self, failure: Exception) -> bool:
        """Go on without the snapshot of the state, if it made a job fail. Returns whether it did."""
        return False

    def job(self, plans: Sequence[PartitionPlan], attempt: int) -> Job:
        return replace(
            self.template,
            ranges={plan.partition: plan.range for plan in plans},
            geneses={plan.partition: plan.position for plan in plans if plan.tail is None},
            run_attempt=attempt,
        )

    def read(self, plans: Sequence[PartitionPlan]) -> "DataFrame":
        """The source records of these plans."""
        context, ranges = self.context, [plan.range for plan in plans]
        return read_records(context.spark, context.kafka, context.pipeline.source.name, ranges)

    def write_rows(self, rows: "DataFrame", job: Job, *, fast: bool) -> list[Outcome]:
        with arrow_batch_limit(self.context.spark, fast=fast):
            aligned = align_to_source(rows, writing_task(job), self.context.pipeline, len(job.ranges))
            if aligned.shuffled and not self.needs_shuffle:
                self._warn_once(SHUFFLE_WARNING)
            return collect(aligned.outcomes)

    def warn_of_slow_columns(self, columns: Sequence[str]) -> None:
        if slow := [name for name in SLOW_COLUMNS if name in columns]:
            self._warn_once(SLOW_COLUMNS_WARNING, ", ".join(slow))

    def _warn_once(self, message: str, *values: str) -> None:
        """Warn of a slow transform, once in a run."""
        if message not in self._warned:
            self._warned.add(message)
            name = self.context.pipeline.name
            logger.warning(message, name, *values, extra={"pipeline": name, "run": self.template.run})

    def _commit_empty_partitions(self, job: Job, outcomes: list[Outcome]) -> list[Outcome]:
        """Commit the partitions without rows, if every task is done: one that failed may have had rows of them."""
        source, reported = self.context.pipeline.source.name, [o.partition for o in outcomes]
        repeated = {p for p in reported if p != NO_PARTITION and reported.count(p) > 1}
        if repeated:
            raise EosError(
                f"Two tasks got rows of {source}/{min(repeated)}: each may have committed a range of which it had only "
                "some rows.",
                f"Find what is missing with `eos verify {self.context.pipeline.name} --full`, and do not run this "
                "transform again.",
            )
        empty = sorted(set(job.ranges) - set(reported))
        if empty and all(o.reaction is Reaction.DONE for o in outcomes):
            partitions = self.context.spark.createDataFrame([(p,) for p in empty], "partition int").coalesce(1)
            outcomes += collect(run_task(partitions, closing_task(job)))
        return outcomes


def collect(outcomes: "DataFrame") -> list[Outcome]:
    """The one action of a job."""
    return [Outcome(**row.asDict()) for row in outcomes.collect()]


def dead_letter(record: "DataFrame", reason: str) -> "DataFrame":
    from pyspark.sql import functions as f

    return record.select(f.lit(None).cast("binary").alias("value"), f.lit(reason).alias("error"), "origin")


class StatelessJobRunner(JobRunner):
    """Runs jobs that reach to the goals of the run: their tasks cut the ranges into transactions."""

    def __init__(self, context: PipelineContext, template: Job) -> None:
        super().__init__(context, template)
        #: Whether rows may travel in batches whose size nothing limits. The first large record ends that.
        self.fast = True

    def job_end(self, plan: PartitionPlan, goal: int) -> int:
        return goal

    def transform(self, plans: Sequence[PartitionPlan]) -> "DataFrame":
        source = self.read(plans)
        result = apply_transform(self.context.pipeline, source, [plan.range for plan in plans])
        check_determinism(self.context.pipeline, source, [result])
        return result

    def _write(self, plans: Sequence[PartitionPlan], job: Job) -> list[Outcome]:
        result = self.transform(plans)
        self.warn_of_slow_columns(result.columns)
        if self.fast and "headers" not in result.columns and not expects_large_outputs(plans):
            try:
                return self.write_rows(worker_rows(result, fast=True), job, fast=True)
            except Exception as failure:
                if classify(failure).code is not Code.BATCH_TOO_LARGE:
                    raise
                self.fast = False  # not a failure: large records need batches of limited size
        return self.write_rows(worker_rows(result), job, fast=False)


def expects_large_outputs(plans: Sequence[PartitionPlan]) -> bool:
    """Whether the outputs of the last transactions were large on average."""
    tails = [plan.tail for plan in plans if isinstance(plan.tail, LedgerEntry)]
    return any(tail.bytes_out > LARGE_BYTES * max(1, tail.records_out) for tail in tails)
