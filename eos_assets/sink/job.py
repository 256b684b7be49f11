"""What a run asks of its tasks: plain data that travels to the workers."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eos_assets.declare.modes import Mode
from eos_assets.declare.names import Names
from eos_assets.declare.options import Batching
from eos_assets.errors import MEANINGS, Code, Reaction
from eos_assets.log.ranges import OffsetRange
from eos_assets.sink.faults import NoFaults

if TYPE_CHECKING:
    from eos_assets.sink.delivery import OpenDelivery

#: What librdkafka puts into one batch, unless told otherwise.
BATCH_BYTES = 1_000_000


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
    batching: Batching
    #: No batch of records may be larger: the smallest limit of the topics that are written.
    batch_bytes: int = BATCH_BYTES
    faults: NoFaults = field(default_factory=NoFaults)
    #: None: each batch is a transaction.
    delivery: "OpenDelivery | None" = None
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
