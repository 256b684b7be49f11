"""Finds the one record that makes a transform raise, by halving the range, and makes a dead letter of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from eos_assets.exactly_once.job import OffsetRange
from eos_assets.exactly_once.spark_errors import brief, may_heal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: A broker that is away for a moment is no fault of a record: such a part is tried again.
TRIES = 3


def first_poison(
    transformed: Callable[[list[OffsetRange]], "DataFrame"], planned: OffsetRange, *, from_start: bool = False
) -> tuple[int, str] | None:
    """The first offset whose record makes the transform raise, with the reason; None if the range is healthy. With
    `from_start` every part begins where the range does: state was loaded for that place only."""
    low, high = planned.start, planned.end
    reason = raises(transformed, planned)
    if reason is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        left = raises(transformed, OffsetRange(planned.partition, planned.start if from_start else low, middle))
        if left is None:
            low = middle
        else:
            high, reason = middle, left
    return low, reason


def raises(transformed: Callable[[list[OffsetRange]], "DataFrame"], part: OffsetRange) -> str | None:
    """What the transform says about this part of the range; None if it succeeds."""
    for _ in range(TRIES):
        try:
            transformed([part]).write.format("noop").mode("overwrite").save()
        except Exception as failure:
            if not may_heal(failure):
                return brief(failure)
            trouble = failure
        else:
            return None
    raise trouble


def dead_letter(record: "DataFrame", reason: str) -> "DataFrame":
    from pyspark.sql import functions as f

    return record.select(f.lit(None).cast("binary").alias("value"), f.lit(reason).alias("error"), "origin")
