"""What runs in a Spark task: from Arrow batches to one outcome per source partition."""

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from eos_assets.errors import Code, TaskError
from eos_assets.sink.job import Job
from eos_assets.sink.outcome import task_outcome
from eos_assets.sink.task_input import read_to_end, task_input
from eos_assets.sink.writer import PartitionWriter
from eos_assets.worker_path import drop_archives

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def writing_task(job: Job) -> Task:
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
            writer = PartitionWriter(job, job.ranges[partition], attempt)
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
