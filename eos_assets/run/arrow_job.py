"""Runs the jobs of Arrow pipelines: each task reads one range itself, and Spark passes no records."""

from collections.abc import Sequence

from eos_assets.errors import Code
from eos_assets.run.job import StatelessJobRunner, collect
from eos_assets.run.partition_alignment import run_task
from eos_assets.run.plan import PartitionPlan
from eos_assets.sink.arrow_task import reading_task
from eos_assets.sink.job import Job, Outcome
from eos_assets.transform.arrow_function import ArrowFunction


class ArrowJobRunner(StatelessJobRunner):
    """Runs one task for each range. To find a record on which the function raises, it is applied to a DataFrame."""

    def _write(self, plans: Sequence[PartitionPlan], job: Job) -> list[Outcome]:
        function = ArrowFunction.of(self.context.pipeline)
        self.warn_of_slow_columns(function.result_columns or [])
        indexes = self.context.spark.range(0, len(plans), 1, len(plans))  # one row in each Spark partition
        outcomes = collect(run_task(indexes, reading_task(job, function)))
        returned = {outcome.partition for outcome in outcomes}
        return outcomes + [without_outcome(plan) for plan in plans if plan.partition not in returned]


def without_outcome(plan: PartitionPlan) -> Outcome:
    """The outcome of a partition for which Spark returned none. Every task returns one, so the partition must not be
    committed as one without records."""
    return Outcome.of_entries(
        plan.partition,
        Code.INPUT_INCOMPLETE,
        [],
        start=plan.position,
        position=plan.position,
        commit_ms=0.0,
        task_attempt=0,
        reason=f"Spark returned no outcome for partition {plan.partition}",
    )
