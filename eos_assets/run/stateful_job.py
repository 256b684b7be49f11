"""The jobs of a stateful pipeline: outputs and changed state, from the state at the positions of the plans."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.run.job import JobRunner
from eos_assets.run.plan import PartitionPlan
from eos_assets.sink.job import Job, Outcome
from eos_assets.state.fold import Folded, Folding
from eos_assets.state.state import State
from eos_assets.transform.determinism import check_determinism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StatefulJobRunner(JobRunner):
    """Runs jobs of one transaction per partition, because the changes of a state are computed for a whole range."""

    needs_range_start = True
    needs_shuffle = True

    def __init__(self, context: PipelineContext, template: Job, state: State, source_partitions: int) -> None:
        super().__init__(context, template)
        self.state = state
        self.source_partitions = source_partitions

    def job_end(self, plan: PartitionPlan, goal: int) -> int:
        return min(goal, plan.position + self.context.pipeline.batching.records)

    def job(self, plans: Sequence[PartitionPlan], attempt: int) -> Job:
        return replace(
            super().job(plans, attempt),
            changelog_offsets=self.state.changelog_offsets({plan.partition: plan.tail for plan in plans}),
            source_partitions=self.source_partitions,
            state_columns=self.state.columns,
        )

    def transform(self, plans: Sequence[PartitionPlan]) -> "DataFrame":
        return self._fold(plans).rows()

    def _write(self, plans: Sequence[PartitionPlan], job: Job) -> list[Outcome]:
        folded = self._fold(plans, persist=True)
        self.warn_of_slow_columns(folded.outputs.columns)
        try:
            return self.write_rows(folded.rows(), job, fast=False)
        finally:
            folded.release()

    def _fold(self, plans: Sequence[PartitionPlan], *, persist: bool = False) -> Folded:
        tails = {plan.partition: plan.tail for plan in plans}
        self.state.check(tails)
        source = self.read(plans)
        folding = Folding(
            self.context.pipeline, self.source_partitions, [plan.range for plan in plans], persist=persist
        )
        folded = folding.fold(source, self.state.load(tails))
        check_determinism(self.context.pipeline, source, [folded.outputs, *folded.changes])
        return folded

    def abandon_snapshot(self, failure: Exception) -> bool:
        return self.state.abandon_snapshot(failure)
