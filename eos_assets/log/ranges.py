"""Ranges of offsets of one partition."""

from collections.abc import Sequence
from dataclasses import dataclass

#: The number of ranges that a message names.
NAMED_RANGES = 3


@dataclass(frozen=True)
class OffsetRange:
    """The offsets [start, end) of one source partition."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets. It is not the number of records, because markers and aborted records leave holes."""
        return max(0, self.end - self.start)

    def describe(self, topic: str) -> str:
        """The range in words."""
        last = f" to {self.end - 1}" if self.size > 1 else ""
        return f"{topic}/{self.partition} offset{'s' * (self.size > 1)} {self.start}{last}"


def describe_ranges(topic: str, ranges: Sequence[OffsetRange]) -> str:
    """The first few ranges in words, and the number of the others."""
    others = f" and {len(ranges) - NAMED_RANGES} more partitions" if len(ranges) > NAMED_RANGES else ""
    return ", ".join(each.describe(topic) for each in ranges[:NAMED_RANGES]) + others
