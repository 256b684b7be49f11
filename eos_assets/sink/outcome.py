"""What became of one source partition in one run, as plain data: it travels from the tasks to the driver."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from eos_assets.errors import MEANINGS, Code, Reaction

#: Where it is not known which source partition an outcome is about.
NO_PARTITION = -1


@dataclass(frozen=True)
class Outcome:
    """One row of the table at the end of a run: the code, the word that the report has for it, and the figures."""

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

    @property
    def reaction(self) -> Reaction:
        """What the driver does about it."""
        return MEANINGS[Code(self.code)].reaction

    def row(self) -> dict[str, Any]:
        return asdict(self)


TYPES = {int: "long", str: "string", float: "double"}
SPARK_SCHEMA = ", ".join(f"{field.name} {TYPES[field.type]}" for field in fields(Outcome))  # type: ignore[index]
ARROW_TYPES = {int: pa.int64(), str: pa.string(), float: pa.float64()}
ARROW_SCHEMA = pa.schema([(field.name, ARROW_TYPES[field.type]) for field in fields(Outcome)])  # type: ignore[index]


def failed(partition: int, code: Code, reason: str, task_attempt: int) -> Outcome:
    """The outcome of a task that could not even begin with a partition."""
    return Outcome(partition, MEANINGS[code].outcome, 0, 0, task_attempt=task_attempt, reason=reason, code=code)


def record_batch(outcome: Outcome) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([outcome.row()], schema=ARROW_SCHEMA)
