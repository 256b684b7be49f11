"""The description of one Spark job: plain data that travels from the driver to its tasks."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eos_assets.declare.names import Names
from eos_assets.declare.options import Batching
from eos_assets.errors import MEANINGS, Code, Reaction
from eos_assets.log.ledger import ChangelogOffsets
from eos_assets.log.ranges import OffsetRange
from eos_assets.sink.faults import NoFaults

if TYPE_CHECKING:
    from eos_assets.sink.delivery import OpenDelivery

#: librdkafka's default for `batch.size`.
BATCH_BYTES = 1_000_000


@dataclass(frozen=True)
class Job:
    """One Spark job over some source partitions."""

    names: Names
    #: The client's configuration, with its password.
    kafka: dict[str, Any] = field(repr=False)
    #: Source partition → the range to write.
    ranges: dict[int, OffsetRange]
    #: Source partition → where its ledger begins; without those that have a ledger entry.
    geneses: dict[int, int]
    topic_ids: dict[str, str]
    #: Sink topic → its number of partitions.
    sink_partitions: dict[str, int]
    default_topic: str
    run: str
    run_attempt: int
    code_version: str
    #: Whether the transform must return at least one row for every source record.
    total: bool
    batching: Batching
    #: `batch.size` of the producer: at most the smallest `max.message.bytes` of the topics that are written.
    batch_bytes: int = BATCH_BYTES
    faults: NoFaults = field(default_factory=NoFaults)
    #: None: `TransactionalDelivery`.
    delivery: "OpenDelivery | None" = None
    #: Whether the job writes a single record, as a dead letter, because the transform raises on it.
    isolated: bool = False
    #: The changelog topics of a stateful pipeline; rows refer to them by their index.
    changelogs: tuple[str, ...] = ()
    #: Source partition → changelog → the last offset that belongs to the state from which the job was planned.
    changelog_offsets: dict[int, ChangelogOffsets] = field(default_factory=dict)
    #: Stateful pipelines: the number of source partitions, which may not change.
    source_partitions: int | None = None
    #: Stateful pipelines: the columns of the state and their types.
    state_columns: dict[str, str] | None = None
    #: How often Spark tries a task.
    task_attempts: int = 1

    @property
    def stateful(self) -> bool:
        return bool(self.changelogs)

    def spark_retries(self, code: Code, attempt: int) -> bool:
        """Whether Spark will try a task again that fails with this code in this attempt, counted from 0."""
        return MEANINGS[code].reaction is Reaction.RETRY and attempt + 1 < self.task_attempts
