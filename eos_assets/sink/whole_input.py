"""The rows of a Spark task in, the same rows out, and an error where Spark broke them off.

When Spark's side of a task fails, the JVM closes the connection to the Python worker and says nothing. Arrow takes that
for the end of the rows, and a writer would commit a part of its range as if it were all. Only behind a real end Spark
sends one more word.
"""

import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Protocol, cast

import pyarrow as pa

from eos_assets.errors import Code, TaskError


class BrokenOff(TaskError):
    """Spark's side of the task failed before it had sent all rows. Nothing of them is committed."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.INPUT_INCOMPLETE, text)


class TaskInput(Protocol):
    def peek(self, size: int, /) -> bytes:
        """The next bytes, without reading them; none if there are no more."""


def task_input() -> TaskInput:
    """What the worker reads its task from. PySpark tells it to nobody, so it is taken from the function that runs every
    task; to be called in the task's own thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            return cast(TaskInput, frame.f_locals["infile"])
        frame = frame.f_back
    raise BrokenOff("this PySpark runs its tasks in a way that is not known here, so their end cannot be told")


def to_the_end(batches: Iterable[pa.RecordBatch], task_input: TaskInput) -> Iterator[pa.RecordBatch]:
    """All batches, and then the certainty that there were no more."""
    yield from batches
    if not task_input.peek(1):
        raise BrokenOff("Spark broke off the rows of this task; nothing of them is committed")
