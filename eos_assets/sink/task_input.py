"""The input of a Spark task, read to its real end.

When Spark's side of a task fails, the JVM closes the connection to the Python worker without a message. Arrow takes
that for the end of the rows, and the sink would commit a part of its range as if it were the whole. Only after a real
end does Spark send one more marker.
"""

import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Protocol, cast

import pyarrow as pa

from eos_assets.errors import Code, TaskError


class InputIncomplete(TaskError):
    """Spark's side of the task failed before it had sent all rows. None of them is committed."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.INPUT_INCOMPLETE, message)


class TaskInput(Protocol):
    def peek(self, size: int, /) -> bytes:
        """The next bytes, without consuming them; empty at the end."""


def task_input() -> TaskInput:
    """The stream from which this worker reads its task. PySpark offers no access to it, so it is taken from the
    function that runs every task. Call it in the task's own thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            return cast(TaskInput, frame.f_locals["infile"])
        frame = frame.f_back
    raise InputIncomplete("this version of PySpark runs its tasks in an unknown way, so their end cannot be verified")


def read_to_end(batches: Iterable[pa.RecordBatch], stream: TaskInput) -> Iterator[pa.RecordBatch]:
    """All batches; raise `InputIncomplete` if their end is not the real one."""
    yield from batches
    if not stream.peek(1):
        raise InputIncomplete("Spark ended the rows of this task before it had sent all; none of them is committed")
