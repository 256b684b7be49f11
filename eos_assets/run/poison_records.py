"""Finds the record that makes a transform raise, by halving the range, and writes it as a dead letter."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.deadlines import Deadline
from eos_assets.errors import Code, EosError, Reaction
from eos_assets.kafka.offsets import OffsetRange, describe_ranges
from eos_assets.run.job import JobRunner
from eos_assets.run.plan import PartitionPlan, Planner
from eos_assets.sink.job import Outcome
from eos_assets.transform.spark_errors import SparkFailure, classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

#: How often a range is tried while it fails for another reason than the transform. No record causes such a failure.
TRIES = 3
#: The time that a run which stops may take to find the record that made the transform raise.
SEARCH_SECONDS = 20.0

#: Runs the transform on a range.
TransformRange = Callable[[OffsetRange], "DataFrame"]


@dataclass(frozen=True)
class Poison:
    """The record that makes the transform raise, as a range of one offset; of several where the search ran out of
    time."""

    range: OffsetRange
    #: What the transform raises.
    reason: str


class PoisonRecords:
    """The records of one run that make its transform raise."""

    def __init__(self, context: PipelineContext, planner: Planner, jobs: JobRunner) -> None:
        self.context = context
        self.planner = planner
        self.jobs = jobs
        #: How many were written as dead letters.
        self.isolated = 0

    def isolate(self, plans: list[PartitionPlan], attempt: int) -> Iterator[list[Outcome]]:
        """Write the first poison record of each range as a dead letter, after all that is before it. Yields the
        outcomes range by range; any failure is raised."""
        for plan in plans:
            poison = first_poison(self._transform_range(plan), plan.range, from_start=self.jobs.needs_range_start)
            if poison is None:
                continue
            self._check_limit(poison)
            outcomes = self._write_up_to(plan, poison, attempt)
            yield outcomes
            if all(o.reaction is Reaction.DONE for o in outcomes):
                self.isolated += 1
                self._report(poison)

    def refusal(self, plans: list[PartitionPlan], failure: SparkFailure) -> EosError:
        """The error that stops the run, with the place of the record if it is found in time."""
        return EosError(
            f"The transform of {self.context.pipeline.name} raises on {self._locate(plans)}: {failure.described}. What "
            "was committed before stays; nothing of the failed transactions is visible.",
            "Correct it, or let it return an `error` for such records, or declare on_error='isolate' to isolate them.",
        )

    def _locate(self, plans: list[PartitionPlan]) -> str:
        """The partition and offset of the first poison record; all ranges of the job where none is found in time."""
        source, deadline = self.context.pipeline.source.name, Deadline(SEARCH_SECONDS)
        try:
            for plan in plans if self.context.pipeline.deterministic else []:
                if deadline.passed:
                    break
                transform = self._transform_range(plan)
                poison = first_poison(transform, plan.range, from_start=self.jobs.needs_range_start, deadline=deadline)
                if poison:
                    return poison.range.describe(source)
        except Exception:
            logger.info("the search for the record that makes the transform raise failed", exc_info=True)
        return describe_ranges(source, [plan.range for plan in plans])

    def _transform_range(self, plan: PartitionPlan) -> TransformRange:
        return lambda chosen: self.jobs.transform([replace(plan, position=chosen.start, end=chosen.end)])

    def _check_limit(self, poison: Poison) -> None:
        pipeline = self.context.pipeline
        if self.isolated >= pipeline.max_isolated:
            raise EosError(
                f"{poison.range.describe(pipeline.source.name)} makes the transform raise too, and {self.isolated} "
                f"records were isolated already (max_isolated={pipeline.max_isolated}): {poison.reason}",
                "Correct the transform, or let it return an `error` for such records.",
            )

    def _write_up_to(self, plan: PartitionPlan, poison: Poison, attempt: int) -> list[Outcome]:
        """Write everything before the record as usual, then the record itself as a dead letter, in order."""
        offset, outcomes = poison.range.start, []
        if offset > plan.position:
            outcomes += self.jobs.run([replace(plan, end=offset)], attempt)
            if any(o.reaction is not Reaction.DONE for o in outcomes):
                return outcomes
            plan = next(again for again in self.planner.plan() if again.partition == plan.partition)
        record = replace(plan, position=offset, end=offset + 1)
        return outcomes + self.jobs.write_dead_letter(record, poison.reason, attempt)

    def _report(self, poison: Poison) -> None:
        pipeline, source = self.context.pipeline, self.context.pipeline.source.name
        logger.warning(
            "%s makes the transform of %s raise and is a dead letter now: %s",
            poison.range.describe(source),
            pipeline.name,
            poison.reason,
            extra={
                "pipeline": pipeline.name,
                "run": self.jobs.template.run,
                "partitions": [poison.range.partition],
                "offset": poison.range.start,
            },
        )


def first_poison(
    transform: TransformRange, planned: OffsetRange, *, from_start: bool = False, deadline: Deadline | None = None
) -> Poison | None:
    """Find the first record that makes the transform raise; None if the transform succeeds on the whole range.

    Args:
        transform: runs the transform on a range.
        planned: the range to search.
        from_start: try each end from the start of the range on, because the state was loaded for that offset.
        deadline: when to stop halving.
    """
    low, high = planned.start, planned.end
    reason = raised_on(transform, planned)
    if reason is None:
        return None
    while high - low > 1 and not (deadline and deadline.passed):
        middle = (low + high) // 2
        reason = raised_on(transform, OffsetRange(planned.partition, planned.start if from_start else low, middle))
        if reason is None:
            low = middle
        else:
            high = middle
    # Once more: a failure that has passed must not make a dead letter of a healthy record.
    reason = raised_on(transform, OffsetRange(planned.partition, planned.start if from_start else low, high))
    return None if reason is None else Poison(OffsetRange(planned.partition, low, high), reason)


def raised_on(transform: TransformRange, chosen: OffsetRange) -> str | None:
    """What the transform raises on a range; None if it succeeds. Any other failure is raised."""
    tries_left = TRIES
    while True:
        try:
            transform(chosen).write.format("noop").mode("overwrite").save()
        except EosError:
            raise
        except Exception as failure:
            reported = classify(failure)
            if reported.code is Code.TRANSFORM_RAISED:
                return reported.message
            tries_left -= 1
            if not tries_left:
                raise
        else:
            return None
