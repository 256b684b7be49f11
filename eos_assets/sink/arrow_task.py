"""What runs in a Spark task of an Arrow pipeline: it reads its ranges itself, from the broker into Arrow batches."""

import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa

from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.range_reader import PartitionRange, read_batches
from eos_assets.log.digest import row_digests
from eos_assets.sink.job import Job
from eos_assets.sink.task import Task, start_task
from eos_assets.sink.writer import PartitionWriter
from eos_assets.transform.arrow_function import ArrowFunction


class RangeRows:
    """The rows of one range: read, transformed and with their digests. Reading stops when no more are needed."""

    def __init__(self, job: Job, planned: OffsetRange, function: ArrowFunction) -> None:
        self.job = job
        self.function = function
        self.range = PartitionRange(job.names.source, planned.partition, planned.start, planned.end)
        self._stopped = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        records = self._until_stopped(read_batches(self.job.kafka, self.range, self.function.columns))
        for rows in self.function.rows(records, self.range.partition):
            headers = rows["headers"] if "headers" in rows.schema.names else None
            digests = row_digests(rows["key"], rows["value"], headers)
            yield rows.append_column("digest", pa.array(digests))

    def _until_stopped(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self._stopped.is_set():
                return
            yield batch

    def stop(self) -> None:
        self._stopped.set()


def reading_task(job: Job, function: ArrowFunction) -> Task:
    """The function that reads, transforms and writes the ranges of a job. Its input names them by their index."""
    ranges = list(job.ranges.values())

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = start_task()
        for batch in batches:
            for index in batch["id"].to_pylist():
                rows = RangeRows(job, ranges[index], function)
                yield PartitionWriter(job, ranges[index], attempt).run(rows, rows.stop).to_arrow()

    return task
