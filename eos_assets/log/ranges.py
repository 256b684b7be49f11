"""Ranges of offsets of one partition."""

from collections.abc import Sequence
from dataclasses import dataclass

#: How many ranges a message names.
SHOWN = 3


@dataclass(frozen=True)
class OffsetRange:
    """The offsets [start, end) of one source partition."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets, which is never a count of records: markers and aborted records leave holes."""
        return max(0, self.end - self.start)

    def of(self, topic: str) -> str:
        """The range in words."""
        last = f" to {self.end - 1}" if self.size > 1 else ""
        return f"{topic}/{self.partition} offset{'s' * (self.size > 1)} {self.start}{last}"


def places(topic: str, ranges: Sequence[OffsetRange]) -> str:
    """Some ranges in words; the first few of many."""
    more = f" and {len(ranges) - SHOWN} more partitions" if len(ranges) > SHOWN else ""
    return ", ".join(planned.of(topic) for planned in ranges[:SHOWN]) + more
