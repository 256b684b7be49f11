"""What travels between the driver and the tasks of one Spark job: the job, and an outcome of each source partition."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eos_assets.declare.names import Names
from eos_assets.declare.options import Batching
from eos_assets.errors import MEANINGS, Code, Reaction
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.log.ledger import ChangelogOffsets, LedgerEntry
from eos_assets.log.reader import CommittedReader

if TYPE_CHECKING:
    from eos_assets.sink.delivery import OpenDelivery


FAILPOINTS = ("before_init", "after_init", "mid_read", "mid_produce", "after_offsets", "before_commit", "after_commit")


class NoFaults:
    """The faults of production: none."""

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        """Pass a failpoint.

        Args:
            failpoint: one of `FAILPOINTS`.
            partition: the source partition.
            start: the first source offset of the transaction; before one is open, that of the planned range.
            run_attempt: the number of the Spark job within the run, from 1.
            task_attempt: the number that Spark gives the task attempt, from 0.
        """


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


@dataclass(frozen=True)
class Attempt:
    """One attempt of a task at one source partition, over all of its transactions."""

    job: Job
    planned: OffsetRange
    #: The number that Spark gives the task attempt, from 0.
    task_attempt: int
    reader: CommittedReader

    @property
    def partition(self) -> int:
        return self.planned.partition

    @property
    def timeout(self) -> float:
        """The seconds after which the broker aborts an open transaction."""
        return self.job.batching.timeout_ms / 1000

    def reach(self, failpoint: str, start: int | None = None) -> None:
        """Pass a failpoint of the protocol, where experiments and tests inject their faults."""
        offset = self.planned.start if start is None else start
        self.job.faults.reach(failpoint, self.partition, offset, self.job.run_attempt, self.task_attempt)


#: The partition of an outcome that belongs to a whole task.
NO_PARTITION = -1


@dataclass(frozen=True)
class Outcome:
    """The result of one source partition in one run: its code, the word for it in the report, and its figures."""

    partition: int
    outcome: str
    start: int
    next: int
    records_in: int = 0
    records_out: int = 0
    skipped: int = 0
    dead: int = 0
    transactions: int = 0
    bytes_out: int = 0
    commit_ms: float = 0.0
    task_attempt: int = 0
    reason: str = ""
    code: str = ""

    @classmethod
    def of_entries(
        cls,
        partition: int,
        code: Code,
        entries: Sequence[LedgerEntry],
        *,
        start: int,
        position: int,
        commit_ms: float,
        task_attempt: int,
        reason: str,
    ) -> "Outcome":
        """The outcome of a partition with the figures of these entries. Without entries it started at `start`."""
        return cls(
            partition=partition,
            outcome=MEANINGS[code].outcome,
            start=entries[0].start if entries else start,
            next=position,
            records_in=sum(entry.records_in for entry in entries),
            records_out=sum(entry.records_out for entry in entries),
            skipped=sum(entry.skipped for entry in entries),
            dead=sum(entry.dead for entry in entries),
            transactions=len(entries),
            bytes_out=sum(entry.bytes_out for entry in entries),
            commit_ms=commit_ms,
            task_attempt=task_attempt,
            reason=reason,
            code=code,
        )

    @property
    def reaction(self) -> Reaction:
        """What the driver does about it."""
        return MEANINGS[Code(self.code)].reaction

    def row(self) -> dict[str, Any]:
        return asdict(self)

    def to_arrow(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([self.row()], schema=ARROW_SCHEMA)


TYPES = {int: ("long", pa.int64()), str: ("string", pa.string()), float: ("double", pa.float64())}
SPARK_SCHEMA = ", ".join(f"{field.name} {TYPES[field.type][0]}" for field in fields(Outcome))  # type: ignore[index]
ARROW_SCHEMA = pa.schema([(field.name, TYPES[field.type][1]) for field in fields(Outcome)])  # type: ignore[index]


def task_outcome(code: Code, reason: str, task_attempt: int) -> Outcome:
    """The outcome of a task that failed before it could start with a partition."""
    return Outcome(NO_PARTITION, MEANINGS[code].outcome, 0, 0, task_attempt=task_attempt, reason=reason, code=code)
