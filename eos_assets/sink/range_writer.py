"""Verifies that the rows of one source partition are complete and in order, and cuts them into transaction batches."""

import tempfile
import time
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.errors import Code, TaskError
from eos_assets.log.ledger import LedgerEntry
from eos_assets.sink.delivery import Delivery, NothingToWrite, OpenBatch
from eos_assets.sink.errors import Fenced
from eos_assets.sink.job import Attempt

#: Beyond these limits rows are held on disk, so that memory does not grow with the outputs of a record.
ROWS = 50_000
BYTES = 32 << 20


class HeldRows:
    """The outputs of a record are produced together, and only once all of them have arrived: a transaction that waits
    in the middle of them could neither be committed nor outlive its timeout."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._bytes = self._rows = 0
        self._in_memory: list[pa.RecordBatch] = []
        self._on_disk: SpillFile | None = None

    @property
    def spilled(self) -> bool:
        return self._on_disk is not None

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._on_disk is not None:
            self._on_disk.write(rows)
            return
        self._in_memory.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows > ROWS or self._bytes > BYTES:
            self._on_disk = SpillFile(rows.schema)
            for batch in self._in_memory:
                self._on_disk.write(batch)
            self._in_memory = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in order. They can be read once."""
        return iter(self._in_memory) if self._on_disk is None else self._on_disk.read()

    def close(self) -> None:
        if self._on_disk is not None:
            self._on_disk.close()


class SpillFile:
    """Arrow batches in a temporary file that disappears with the process."""

    def __init__(self, schema: pa.Schema) -> None:
        self._file = tempfile.TemporaryFile(prefix="eos-held-")  # noqa: SIM115 - closed by `close`
        self._writer = pa.ipc.new_stream(self._file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)

    def read(self) -> Iterator[pa.RecordBatch]:
        self._writer.close()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)
        self.close()

    def close(self) -> None:
        self._file.close()


#: The most digests of fetched files in a ledger entry, about 100 KB.
MAX_FILES = 1_000
#: The most outputs of a batch, however few source records they come from.
MAX_OUTPUTS = 1_000_000


class RangeWriter:
    """Writes the planned range, from the position of its first open batch on.

    Rows arrive in the order of their origins.
    """

    def __init__(self, attempt: Attempt, delivery: Delivery, first: OpenBatch) -> None:
        self.attempt = attempt
        self.job = attempt.job
        self.planned = attempt.planned
        self.delivery = delivery
        #: The batch that is open now.
        self.current = first
        self.position = first.batch.start
        self.entries: list[LedgerEntry] = []
        self.commit_seconds = 0.0
        self.last_offset = self.planned.start - 1
        self.next_ordinal = 0
        #: The ordinal of the last record before the open batch; None if the task did not see that record.
        self.ordinal_before = -1 if self.position == self.planned.start else None
        #: The ordinal of the last record in the open batch.
        self.last_ordinal = -1
        self.held: HeldRows | None = None
        #: Store and key of the last state change.
        self.last_change: tuple[int, bytes | None] | None = None

    def write(self, batches: Iterable[pa.RecordBatch | None]) -> None:
        """Write and commit the whole range. None among the Arrow batches means that none arrived for a while."""
        for rows in batches:
            if rows is not None:
                self._take(rows)
            if self._open_for_too_long():
                self._next_batch()
        self._write_held()
        self._check_tail()
        self._commit(self.planned.end)

    def close(self) -> None:
        if self.held is not None:
            self.held.close()
        self.current.close()

    def _take(self, rows: pa.RecordBatch) -> None:
        new_rows = self._check_order(self._write_state_changes(rows))
        if not new_rows.num_rows:
            return
        if self._full():  # checked only now that there is more, so that no batch is left with a single record
            self._next_batch()
        self._produce_complete(new_rows)

    def _next_batch(self) -> None:
        """Commit what is complete, and open the next batch after it."""
        self.delivery.prepare_next()
        self._commit(self.current.batch.next)
        self.current.settle()
        self.current.close()
        following = self.delivery.open()
        if isinstance(following, NothingToWrite):
            raise Fenced(f"after the commit of {self.position} there is nothing left to write: {following}")
        self.current = following
        if following.batch.start != self.position:
            raise Fenced(f"after the commit of {self.position} the position is {following.batch.start}")

    def _write_state_changes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Write the state changes, which are sorted after all other rows, and return the other rows."""
        if "store" not in rows.schema.names:
            return rows
        changes = rows.slice(rows["store"].null_count)
        if changes.num_rows:
            self._check_one_change_per_key(changes)
            self.current.begin(self.position)
            self.current.batch.write_changes(changes)
        return rows.slice(0, rows["store"].null_count)

    def _check_one_change_per_key(self, changes: pa.RecordBatch) -> None:
        """Refuse two states of one key: it would not be known which of them is the last."""
        stores, keys = changes["store"].to_numpy(), changes["key"]
        equal = pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
        repeated = np.flatnonzero(equal & (stores[1:] == stores[:-1]))
        if len(repeated) or (stores[0], keys[0].as_py()) == self.last_change:
            key = keys[int(repeated[0]) if len(repeated) else 0].as_py()
            raise TaskError(
                Code.INVALID_RESULT, f"the function returned two states of the key {key!r}: return one row for each key"
            )
        self.last_change = (int(stores[-1]), keys[-1].as_py())

    def _check_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Verify that no record is missing or out of order, and return the rows at or after the position."""
        if not rows.num_rows:
            return rows
        offsets, ordinals = rows["o_offset"].to_numpy(), rows["o_ordinal"].to_numpy()
        steps = np.diff(offsets, prepend=self.last_offset)
        if (steps < 0).any():
            offset = offsets[np.argmax(steps < 0)]
            raise TaskError(
                Code.ROWS_OUT_OF_ORDER,
                f"rows arrived out of order at source offset {offset}: a transform that reorders is not `ordered`. "
                "Remove ordered=True, or keep the order of the records",
            )
        gaps = np.diff(ordinals, prepend=self.next_ordinal - 1) - (steps > 0)
        if gaps.any() and self.job.total:
            row = int(np.argmax(gaps != 0))
            raise self._record_left_out(int(gaps[row]), int(offsets[row]))
        self.last_offset, self.next_ordinal = int(offsets[-1]), int(ordinals[-1]) + 1
        committed = int(np.searchsorted(offsets, self.position))  # by an earlier attempt
        if committed:
            adjacent = offsets[committed - 1] == self.position - 1
            self.ordinal_before = int(ordinals[committed - 1]) if adjacent else None
        return rows.slice(committed)

    def _produce_complete(self, rows: pa.RecordBatch) -> None:
        """Produce all records except the last one, which may have more rows: no transaction splits a record."""
        offsets = rows["o_offset"].to_numpy()
        continued = 0
        if self.held is not None:
            continued = int(np.searchsorted(offsets, self.held.offset, side="right"))
            self.held.add(rows.slice(0, continued))
        if continued < rows.num_rows:
            last = int(offsets[-1])
            first_of_last = int(np.searchsorted(offsets, last))
            self._write_held(rows.slice(continued, first_of_last - continued))
            self.held = HeldRows(last)
            self.held.add(rows.slice(first_of_last))

    def _write_held(self, following: pa.RecordBatch | None = None) -> None:
        """Produce the held record, which is complete now, and the complete ones after it."""
        batches = [] if following is None or not following.num_rows else [following]
        held, self.held = self.held, None
        if held is not None and held.spilled:
            if self.current.batch.records_in and not self.job.stateful:
                self._next_batch()  # a record with this many outputs gets the transaction's full time
            for batch in held.batches():
                self._produce(batch)
        elif held is not None:
            batches = [*held.batches(), *batches]
        if batches:
            self._produce(pa.concat_batches(batches))

    def _produce(self, rows: pa.RecordBatch) -> None:
        self.current.begin(int(rows["o_offset"][-1].as_py()) + 1)
        self.current.batch.write(rows, self.attempt.reader)
        self.last_ordinal = int(rows["o_ordinal"][-1].as_py())
        self.attempt.reach("mid_produce", self.current.batch.start)

    def _full(self) -> bool:
        """Whether the batch is large enough, together with the held record. A stateful range is cut by the plan only:
        cut elsewhere, it would give another state."""
        batch, limits = self.current.batch, self.job.batching
        if self.job.stateful or not batch.records_in:
            return False
        records = batch.records_in + (self.held is not None)
        enough = records >= limits.records or batch.bytes_out >= limits.bytes
        return enough or batch.records_out >= MAX_OUTPUTS or len(batch.files) >= MAX_FILES

    def _open_for_too_long(self) -> bool:
        """Whether waiting for more rows might outlast the transaction timeout."""
        if self.job.stateful or not self.current.batch.records_in:
            return False
        return self.current.seconds_open() > self.attempt.timeout / 2

    def _check_tail(self) -> None:
        """Verify that no visible record is between the last row and the end: the transform would have dropped it."""
        if self.last_offset + 1 >= self.planned.end:
            return
        visible = self.attempt.reader.first_visible(self.attempt.partition, self.last_offset + 1, self.planned.end)
        if visible is None:
            return
        if self.job.total:
            raise self._record_left_out(None, visible)
        self.ordinal_before = None  # the number of records dropped at the end is unknown

    def _count_dropped(self) -> int | None:
        """The number of records of the batch without a row; None if the task did not see all of them."""
        if self.job.total:
            return 0
        if self.ordinal_before is None:
            return None
        return max(0, self.last_ordinal - self.ordinal_before) - self.current.batch.records_in

    def _commit(self, next_offset: int) -> None:
        self.current.batch.dropped, self.ordinal_before = self._count_dropped(), self.last_ordinal
        started = time.monotonic()
        self.entries.append(self.current.commit(next_offset))
        self.commit_seconds += time.monotonic() - started
        self.position = next_offset

    def _record_left_out(self, count: int | None, offset: int) -> TaskError:
        place = f"{self.job.names.source}/{self.attempt.partition} near offset {offset}"
        return TaskError(
            Code.RECORD_LEFT_OUT,
            f"the transform left out {'some' if count is None else count} record(s) of {place}, without an output, an "
            "error or skip = true. Return a row with skip = true for what is left out on purpose, or declare "
            "drops=True; nothing of this batch was committed",
        )
