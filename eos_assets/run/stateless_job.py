"""The jobs of a stateless pipeline: the result of its transform."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.errors import Code
from eos_assets.log.ledger import LedgerEntry
from eos_assets.run.job import JobRunner
from eos_assets.run.plan import PartitionPlan
from eos_assets.sink.job import Job
from eos_assets.sink.outcome import Outcome
from eos_assets.transform.arrow_batches import LARGE_BYTES
from eos_assets.transform.determinism import check_determinism
from eos_assets.transform.result_schema import apply_transform, worker_rows
from eos_assets.transform.spark_errors import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
