"""What runs in the Spark tasks: Arrow batches in, one outcome per source partition out."""

import itertools
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from eos_assets.errors import Code, TaskError
from eos_assets.sink.batches import by_partition
from eos_assets.sink.job import Job
from eos_assets.sink.outcome import NO_PARTITION, failed, record_batch
from eos_assets.sink.whole_input import task_input, to_the_end
from eos_assets.sink.writer import PartitionWriter
from eos_assets.worker_path import leave_archives

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def writing_task(job: Job) -> Task:
    """The function that runs in the Spark tasks: rows in, one outcome per source partition out."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = begun()
        whole = to_the_end(batches, task_input())
        pieces_of = itertools.groupby(by_partition(whole), key=lambda piece: piece[0])
        while True:
            try:
                partition, pieces = next(pieces_of)
            except StopIteration:
                return
            except TaskError as error:  # before it is known to which partition the rows belong
                if job.spark_retries(error.code, attempt):
                    raise
                yield record_batch(failed(NO_PARTITION, error.code, str(error), attempt))
                return
            if partition not in job.ranges:
                text = f"the transform returned a row with origin.partition {partition}, which this job does not read"
                yield record_batch(failed(NO_PARTITION, Code.INVALID_RESULT, text, attempt))
                return
            writer = PartitionWriter(job, job.ranges[partition], attempt)
            yield record_batch(writer.run(piece for _, piece in pieces))

    return task


def closing_task(job: Job) -> Task:
    """Commits ranges in which there is nothing to write, through the same steps."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = begun()
        for batch in batches:
            for partition in batch["partition"].to_pylist():
                yield record_batch(PartitionWriter(job, job.ranges[partition], attempt).run([]))

    return task


def begun() -> int:
    """Which attempt at this task it is."""
    from pyspark import TaskContext

    leave_archives()
    context = TaskContext.get()
    return context.attemptNumber() if context else 0
