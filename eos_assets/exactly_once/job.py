"""What a run asks of its tasks: plain data that travels to the workers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eos_assets.errors import MEANINGS, Code, Reaction
from eos_assets.exactly_once.failures import Failures
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.names import Names

#: What librdkafka puts into one batch, unless told otherwise.
BATCH_BYTES = 1_000_000
#: More of a dead letter's reason would not fit beside a large record.
REASON_CHARACTERS = 4_000
#: So many ranges are named in a message.
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


@dataclass(frozen=True)
class Job:
    """One Spark job over some source partitions."""

    names: Names
    kafka: dict[str, Any] = field(repr=False)  # with the password
    ranges: dict[int, OffsetRange]
    geneses: dict[int, int]
    topic_ids: dict[str, str]
    sink_partitions: dict[str, int]
    default_topic: str
    run: str
    run_attempt: int
    code_version: str
    total: bool
    slice_records: int
    slice_bytes: int
    transaction_timeout_ms: int
    #: No batch of records may be larger: the smallest limit of the topics that are written.
    batch_bytes: int = BATCH_BYTES
    failures: Failures = field(default_factory=Failures)
    #: The one record of this job is set aside, because the function raises on it.
    isolated: bool = False
    #: The changelog topics of a stateful pipeline, by their number.
    changelogs: tuple[str, ...] = ()
    #: Source partition → changelog → its last offset that belongs to the state which this job was planned with.
    marks: dict[int, dict[str, int]] = field(default_factory=dict)
    #: How many partitions the source has, where that may not change.
    source_partitions: int | None = None
    #: The columns of a stateful pipeline's state, and their types.
    state_columns: dict[str, str] | None = None

    #: How often Spark tries a task.
    task_attempts: int = 1

    @property
    def stateful(self) -> bool:
        return bool(self.changelogs)

    def spark_retries(self, code: Code, attempt: int) -> bool:
        """Whether a task that fails in this attempt, counted from 0, may be healed by another attempt of Spark's."""
        return MEANINGS[code].reaction is Reaction.RETRY and attempt + 1 < self.task_attempts

    @property
    def mode(self) -> Mode:
        return self.names.mode
