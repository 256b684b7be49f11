"""What runs in a Spark task: from Arrow batches to one outcome per source partition."""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Protocol, cast

import numpy as np
import pyarrow as pa

from eos_assets.errors import Code, TaskError
from eos_assets.log.ranges import OffsetRange
from eos_assets.sink.job import Job
from eos_assets.sink.outcome import task_outcome
from eos_assets.sink.writer import PartitionWriter
from eos_assets.worker_path import drop_archives

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class OpenWriter(Protocol):
    """Makes what writes one source partition in one task attempt."""

    def __call__(self, job: Job, planned: OffsetRange, task_attempt: int, /) -> PartitionWriter: ...


def writing_task(job: Job, open_writer: OpenWriter = PartitionWriter) -> Task:
    """The function that writes the rows of a job."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = start_task()
        rows = split_by_partition(read_to_end(batches, task_input()))
        groups = itertools.groupby(rows, key=lambda entry: entry[0])
        while True:
            try:
                partition, group = next(groups)
            except StopIteration:
                return
            except TaskError as error:  # before it is known which partition the rows belong to
                if job.spark_retries(error.code, attempt):
                    raise
                yield task_outcome(error.code, str(error), attempt).to_arrow()
                return
            if partition not in job.ranges:
                reason = f"the transform returned a row with origin.partition {partition}, which this job does not read"
                yield task_outcome(Code.INVALID_RESULT, reason, attempt).to_arrow()
                return
            writer = open_writer(job, job.ranges[partition], attempt)
            yield writer.run(batch for _, batch in group).to_arrow()

    return task


def closing_task(job: Job) -> Task:
    """The function that commits ranges without rows, through the same steps."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = start_task()
        for batch in batches:
            for partition in batch["partition"].to_pylist():
                yield PartitionWriter(job, job.ranges[partition], attempt).run([]).to_arrow()

    return task


def start_task() -> int:
    """Prepare the worker, and return the number of the task attempt."""
    from pyspark import TaskContext

    drop_archives()
    context = TaskContext.get()
    return context.attemptNumber() if context else 0


def split_by_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split Arrow batches so that each holds rows of one source partition, in order."""
    for batch in batches:
        if any(batch[name].null_count for name in ("o_partition", "o_offset", "o_ordinal")):
            raise TaskError(Code.ROW_WITHOUT_ORIGIN, "a row of the result has no origin")
        partitions = batch["o_partition"].to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        for low, high in itertools.pairwise(cuts):
            if high > low:
                yield int(partitions[low]), batch.slice(low, high - low)


class InputIncomplete(TaskError):
    """Spark's side of the task failed before it had sent all rows. None of them is committed.

    The JVM then closes the connection to the Python worker without a message. Arrow takes that for the end of the
    rows, and the sink would commit a part of its range as if it were the whole.
    """

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
    """All batches; raise `InputIncomplete` unless the marker follows that Spark sends after a real end."""
    yield from batches
    if not stream.peek(1):
        raise InputIncomplete("Spark ended the rows of this task before it had sent all; none of them is committed")
