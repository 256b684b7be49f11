"""Writes the rows of one source partition, and turns every error into an outcome or a retry."""

import contextlib
import itertools
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaException

from eos_assets.errors import Code, EosError, TaskError
from eos_assets.kafka.auth_errors import PermissionDenied, grant_remedy
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.log.reader import CommittedReader
from eos_assets.sink.delivery import Delivery, NothingToWrite
from eos_assets.sink.errors import Fenced, classify
from eos_assets.sink.job import Attempt, Job, Outcome
from eos_assets.sink.range_writer import RangeWriter
from eos_assets.sink.resume import AlreadyDone, OffsetsMoved, StalePlan
from eos_assets.sink.transaction import TransactionalDelivery

#: The most bytes that are read ahead.
AHEAD_BYTES = 16 << 20


class Prefetch:
    """Reads Arrow batches in a thread of its own. The thread ends with the batches, or with its process."""

    def __init__(self, batches: Iterable[pa.RecordBatch], seconds: float) -> None:
        self._batches = batches
        self._seconds = seconds
        self._ready: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True, name="eos-prefetch").start()

    def _read(self) -> None:
        failure: BaseException | None = None
        try:
            for batch in self._batches:
                self._append(batch)
        except BaseException as raised:
            failure = raised
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify()

    def _append(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._ready or self._bytes + batch.nbytes <= AHEAD_BYTES)
            self._ready.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify()

    def __iter__(self) -> Iterator[pa.RecordBatch | None]:
        """The batches in order, and None whenever none arrived for `seconds`. What reading raises is raised here, after
        all batches that were read before it."""
        while True:
            with self._changed:
                in_time = self._changed.wait_for(lambda: self._ready or self._ended, self._seconds)
                batch = self._ready.popleft() if self._ready else None
                if batch is not None:
                    self._bytes -= batch.nbytes
                    self._changed.notify()
                elif in_time:
                    break
            yield batch
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def drain(self) -> None:
        """Read and discard the rest, so that this thread is not still reading when Spark uses the input again."""
        for _ in self:
            continue


#: The outcome of an attempt that ends at step 4.
ENDED = {AlreadyDone: Code.ALREADY_DONE, StalePlan: Code.STALE_PLAN, OffsetsMoved: Code.OFFSETS_MOVED}


class PartitionWriter:
    """Writes one source partition in one task attempt."""

    def __init__(self, job: Job, planned: OffsetRange, task_attempt: int) -> None:
        self.attempt = Attempt(job, planned, task_attempt, CommittedReader(job.kafka, job.names))
        self.delivery: Delivery = (job.delivery or TransactionalDelivery)(self.attempt)
        #: None until the rows are read, and until there is something to write.
        self.input: Prefetch | None = None
        self.stop: Callable[[], None] | None = None
        self.range_writer: RangeWriter | None = None

    def run(self, rows: Iterable[pa.RecordBatch], stop: Callable[[], None] | None = None) -> Outcome:
        """Write the rows, and return the outcome. Raise only what Spark's next attempt may heal.

        Args:
            rows: all rows of the partition.
            stop: called when no more rows are needed; without it, the rest is read and discarded.
        """
        self.stop = stop
        try:
            return self._write(rows)
        except Exception as failure:
            error = self._with_code(failure)
            self._abandon(error)
            if self.attempt.job.spark_retries(error.code, self.attempt.task_attempt):
                raise error from failure
            with contextlib.suppress(TaskError):  # the first error is the one to report
                self._drain()
            return self._outcome(error.code, reason=str(error))
        except BaseException as interrupt:
            self._abandon(interrupt)
            raise
        finally:
            if self.range_writer is not None:
                self.range_writer.close()
            self.delivery.close()
            self.attempt.reader.close()

    def _write(self, rows: Iterable[pa.RecordBatch]) -> Outcome:
        job = self.attempt.job
        if not job.stateful:  # the plan cuts a stateful range
            rows = split_by_origins(rows, job.batching.records)
        self.input = Prefetch(rows, self.attempt.timeout / 20)
        first = self.delivery.open()
        if isinstance(first, NothingToWrite):
            self._drain()
            return self._outcome(ENDED[type(first)], first.position, getattr(first, "reason", ""))
        self.range_writer = RangeWriter(self.attempt, self.delivery, first)
        self.range_writer.write(self.input)
        return self._outcome(Code.COMMITTED)

    def _abandon(self, failure: BaseException) -> None:
        if self.range_writer is not None:
            self.range_writer.current.abandon(failure)

    def _drain(self) -> None:
        if self.stop is not None:
            self.stop()
        if self.input is not None:
            self.input.drain()

    def _with_code(self, failure: Exception) -> TaskError:
        """The failure as an error with a code. Spark's own errors never reach this place."""
        if isinstance(failure, KafkaException):
            failure = classify(failure.args[0], f"partition {self.attempt.partition}")
        if isinstance(failure, Fenced) and self._timed_out():
            return TaskError(Code.TRANSACTION_TIMED_OUT, self._timeout_message())
        if isinstance(failure, Fenced):
            return Fenced(f"a newer attempt took over ({failure})")
        if isinstance(failure, PermissionDenied):
            return PermissionDenied(self._permission_message(failure), failure.kind)
        if isinstance(failure, TaskError):
            return failure
        if isinstance(failure, EosError):
            return TaskError(getattr(failure, "code", Code.TOPIC_UNREADABLE), str(failure))
        traceback.print_exception(failure)  # to the log of the executor
        return TaskError(Code.UNEXPECTED, f"{type(failure).__name__}: {failure}")

    def _timed_out(self) -> bool:
        """Whether the broker may have aborted a slow transaction. It reports the error of a fenced producer, and only
        the elapsed time distinguishes the two."""
        return self.range_writer is not None and self.range_writer.current.seconds_open() > self.attempt.timeout

    def _timeout_message(self) -> str:
        remedy = ": declare a longer one, or fewer records" if self.attempt.job.stateful else ""
        return (
            f"partition {self.attempt.partition}: the broker aborted a transaction that was open for longer than "
            f"{self.attempt.job.batching.timeout_ms} ms (Batching.timeout_ms{remedy}); nothing of it is visible, "
            "and it is tried again"
        )

    def _permission_message(self, denied: PermissionDenied) -> str:
        names, principal = self.attempt.job.names, f"User:{self.attempt.job.kafka.get('sasl.username', 'ANONYMOUS')}"
        permissions = {
            "transactional id": f"Write on transactional-id {names.transactional_prefix}…",
            "group": f"Read on group {names.group}",
        }
        permission = permissions.get(denied.kind, f"a permission on a {denied.kind}")
        remedy = grant_remedy(principal, names.pipeline)
        return f"{principal} lacks {permission} ({denied}). Nothing of this attempt is visible. {remedy}"

    def _outcome(self, code: Code, position: int | None = None, reason: str = "") -> Outcome:
        attempt, writer = self.attempt, self.range_writer
        if position is None:
            position = writer.position if writer else attempt.planned.start
        return Outcome.of_entries(
            attempt.partition,
            code,
            writer.entries if writer else [],
            start=position,
            position=position,
            commit_ms=writer.commit_seconds * 1000 if writer else 0.0,
            task_attempt=attempt.task_attempt,
            reason=reason,
        )


def split_by_origins(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """Split Arrow batches so that each holds at most this many source records: a transaction can end between two."""
    for batch in batches:
        first_rows = np.flatnonzero(np.diff(batch["o_offset"].to_numpy())) + 1
        for low, high in itertools.pairwise([0, *first_rows[count - 1 :: count].tolist(), batch.num_rows]):
            yield batch.slice(low, high - low)
