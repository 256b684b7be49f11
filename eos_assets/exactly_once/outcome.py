"""What became of one source partition in one run, as plain data: it travels from the tasks to the driver."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

#: committed: it wrote. already_done: somebody had. fenced: somebody newer owns it. stale: plan again.
#: refused: a person must look. failed: this attempt could not.
OUTCOMES = ("committed", "already_done", "fenced", "stale", "refused", "failed")


@dataclass(frozen=True)
class Outcome:
    """One row of the table at the end of a run."""

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

    def row(self) -> dict[str, Any]:
        return asdict(self)


TYPES = {int: "long", str: "string", float: "double"}
SPARK_SCHEMA = ", ".join(f"{field.name} {TYPES[field.type]}" for field in fields(Outcome))  # type: ignore[index]
ARROW_TYPES = {int: pa.int64(), str: pa.string(), float: pa.float64()}
ARROW_SCHEMA = pa.schema([(field.name, ARROW_TYPES[field.type]) for field in fields(Outcome)])  # type: ignore[index]


def record_batch(outcome: Outcome) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([outcome.row()], schema=ARROW_SCHEMA)
