"""Finds the one record that makes a transform raise, by halving the range, and makes a dead letter of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eos_assets.errors import Code, EosError, Reaction
from eos_assets.log.ranges import OffsetRange, describe_ranges
from eos_assets.run.partition_alignment import outcomes_of
from eos_assets.run.plan import PartitionPlan
from eos_assets.sink.outcome import Outcome
from eos_assets.sink.task import writing_task
from eos_assets.transform.result_schema import travelling
from eos_assets.transform.source import records
from eos_assets.transform.spark_errors import SparkFailure, brief, classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eos_assets.run.run import Run

#: What is not an error of the transform says nothing about a record: such a part is tried again.
TRIES = 3
#: How long a run that stops looks for the record that made the transform raise.
SEARCH_SECONDS = 20.0


@dataclass
class Isolation:
    """The records that one run sets aside."""

    run: "Run"
    #: How many so far.
    isolated: int = 0

    def isolate(self, plans: list[PartitionPlan], ranges: list[OffsetRange], reported: SparkFailure) -> int:
        """Finds the records that make the transform raise and sets them aside as dead letters. Returns how many. What
        else fails meanwhile is a failed attempt like any other."""
        if self.run.pipeline.on_error == "stop":
            where = self.where(plans, ranges)
            raise EosError(
                f"The transform of {self.run.pipeline.name} raises on {where}: {reported.described}",
                "Correct it, or let it return an `error` for such records, or declare on_error='isolate' to set them "
                "aside. What was committed before stays; nothing of the failed slices is visible.",
            )
        before = self.isolated
        try:
            for planned in ranges:
                self.isolate_first(plans, planned)
        except EosError:
            raise
        except Exception as failure:
            self.run.note(brief(failure))
        return self.isolated - before

    def where(self, plans: list[PartitionPlan], ranges: list[OffsetRange]) -> str:
        """The partition and the offsets of the first record that makes the transform raise, as closely as halving its
        range tells within a few seconds; all ranges of the job where that finds nothing."""
        topic, deadline = self.run.pipeline.source.name, time.monotonic() + SEARCH_SECONDS
        try:
            for planned in ranges if self.run.pipeline.deterministic else []:
                if time.monotonic() > deadline:
                    break
                if poison := self.first_poison(plans, planned, deadline):
                    return poison[0].describe(topic)
        except Exception:
            pass  # nothing is known but the ranges
        return describe_ranges(topic, ranges)

    def isolate_first(self, plans: list[PartitionPlan], planned: OffsetRange) -> None:
        poison = self.first_poison(plans, planned)
        if poison is None:
            return
        offset, reason = poison[0].start, poison[1]
        pipeline = self.run.pipeline
        if self.isolated >= pipeline.max_isolated:
            raise EosError(
                f"{pipeline.source.name}/{planned.partition} offset {offset} makes the transform raise too, and "
                f"{pipeline.max_isolated} records were set aside already (max_isolated): {reason}",
                "Correct the transform, or let it return an `error` for such records.",
            )
        outcomes = self.set_aside(plans, planned, offset, reason)
        self.run.take_in(outcomes)
        self.isolated += all(o.reaction is Reaction.DONE for o in outcomes)

    def first_poison(
        self, plans: list[PartitionPlan], planned: OffsetRange, deadline: float | None = None
    ) -> tuple[OffsetRange, str] | None:
        if self.run.pipeline.stateful:
            folded = lambda part: self.run.folded(plans, part).rows()  # noqa: E731
            return first_poison(folded, planned, from_start=True, deadline=deadline)
        return first_poison(self.run.transformed, planned, deadline=deadline)

    def set_aside(self, plans: list[PartitionPlan], planned: OffsetRange, offset: int, reason: str) -> list[Outcome]:
        """Everything before the record as usual, then the record itself as a dead letter, in order."""
        run, outcomes = self.run, []
        if offset > planned.start:
            outcomes += run.attempt(plans, [OffsetRange(planned.partition, planned.start, offset)])
            if any(o.reaction is not Reaction.DONE for o in outcomes):
                return outcomes
            plans = run.plan()
        alone = OffsetRange(planned.partition, offset, offset + 1)
        rows = dead_letter(records(run.spark, run.connection, run.pipeline.source.name, [alone]), reason)
        job = replace(run.job(plans, [alone]), isolated=True)
        return outcomes + run.collect(outcomes_of(travelling(rows), writing_task(job)))


def first_poison(
    transformed: Callable[[list[OffsetRange]], "DataFrame"],
    planned: OffsetRange,
    *,
    from_start: bool = False,
    deadline: float | None = None,
) -> tuple[OffsetRange, str] | None:
    """The offset of the first record that makes the transform raise, as a range, with the reason; None if the range is
    healthy. At the deadline the range may still hold more than one offset.

    Args:
        transformed: runs the transform on some ranges.
        planned: where to look.
        from_start: every part begins where the range does: state was loaded for that place only.
        deadline: until when to look.
    """
    low, high = planned.start, planned.end
    reason = raises(transformed, planned)
    if reason is None:
        return None
    while high - low > 1 and (deadline is None or time.monotonic() < deadline):
        middle = (low + high) // 2
        left = raises(transformed, OffsetRange(planned.partition, planned.start if from_start else low, middle))
        if left is None:
            low = middle
        else:
            high, reason = middle, left
    # Once more: a failure that passed must not make a dead letter of a healthy record.
    again = raises(transformed, OffsetRange(planned.partition, planned.start if from_start else low, high))
    return None if again is None else (OffsetRange(planned.partition, low, high), again)


def raises(transformed: Callable[[list[OffsetRange]], "DataFrame"], part: OffsetRange) -> str | None:
    """What the transform raises on this part of the range; None if it succeeds. Any other failure is raised."""
    for _ in range(TRIES):
        try:
            transformed([part]).write.format("noop").mode("overwrite").save()
        except EosError:
            raise
        except Exception as failure:
            reported = classify(failure)
            if reported.code is Code.TRANSFORM_RAISED:
                return reported.message
            trouble = failure
        else:
            return None
    raise trouble


def dead_letter(record: "DataFrame", reason: str) -> "DataFrame":
    from pyspark.sql import functions as f

    return record.select(f.lit(None).cast("binary").alias("value"), f.lit(reason).alias("error"), "origin")
