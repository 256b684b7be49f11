"""The result of one source partition in one run: plain data that travels from the tasks to the driver."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from eos_assets.errors import MEANINGS, Code, Reaction
from eos_assets.log.ledger import LedgerEntry

#: The partition of an outcome that belongs to a whole task.
NO_PARTITION = -1


@dataclass(frozen=True)
class Outcome:
    """One row of the table at the end of a run: the code, the word for it in the report, and the figures."""

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
