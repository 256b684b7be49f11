"""The rows of one source partition: checked for completeness and order, and cut into transaction batches."""

import time
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.errors import Code, TaskError
from eos_assets.log.ledger import LedgerEntry
from eos_assets.sink.attempt import Attempt
from eos_assets.sink.delivery import Delivery, NothingToWrite, OpenBatch
from eos_assets.sink.errors import Fenced
from eos_assets.sink.held_rows import Held
from eos_assets.sink.job import Job

#: The ledger entry of a batch holds at most this many digests of fetched files: about 100 KB.
FILES = 1_000
#: The largest number of outputs of a batch, however few records they came from.
OUTPUTS = 1_000_000


class RangeWriter:
    """Writes the planned range from the position of its first open batch on. The rows come in the order of their
    origins."""

    def __init__(self, attempt: Attempt, delivery: Delivery, first: OpenBatch) -> None:
        self.attempt = attempt
        self.job = attempt.job
        self.planned = attempt.planned
        self.delivery = delivery
        self.open = first
        self.position = first.batch.start
        self.entries: list[LedgerEntry] = []
        self.commit_seconds = 0.0
        self.last_offset = self.planned.start - 1
        self.next_ordinal = 0
        #: The ordinals of the last record before the batch, None if the task did not see it, and of the last in it.
        self.before = -1 if self.position == self.planned.start else None
        self.reached = -1
        self.held: Held | None = None
        self.changed: tuple[int, bytes | None] | None = None

    def write(self, arrivals: Iterable[pa.RecordBatch | None]) -> None:
        """Write and commit the whole range. None among the Arrow batches means that none arrived for a while."""
        for rows in arrivals:
            if rows is not None:
                self.take(rows)
            if self.late():
                self.next_batch()
        self.write_held()
        self.check_tail()
        self.commit(self.planned.end)

    def take(self, rows: pa.RecordBatch) -> None:
        fresh = self.fresh(self.without_changes(rows))
        if not fresh.num_rows:
            return
        if self.full():  # only now, when there is more: else the last batch might hold one record
            self.next_batch()
        self.produce(fresh)

    def close(self) -> None:
        if self.held is not None:
            self.held.close()
        self.open.close()

    def next_batch(self) -> None:
        """Commit what is complete and open the next batch after it."""
        self.delivery.prepare_next()
        self.commit(self.open.batch.next)
        self.open.settle()
        self.open.close()
        following = self.delivery.open()
        if isinstance(following, NothingToWrite):
            raise Fenced(f"after the commit of {self.position} there is nothing left to write: {following}")
        self.open = following
        if following.batch.start != self.position:
            raise Fenced(f"after the commit of {self.position} the position is {following.batch.start}")

    def without_changes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Write the changes of the state, which are sorted after all other rows, and return those."""
        if "store" not in rows.schema.names:
            return rows
        changes = rows.slice(rows["store"].null_count)
        if changes.num_rows:
            self.check_once(changes)
            self.open.begin(self.position)
            self.open.batch.write_changes(changes)
        return rows.slice(0, rows["store"].null_count)

    def check_once(self, changes: pa.RecordBatch) -> None:
        """Check that each key changes once: of two states of one key, it is unknown which is the last."""
        stores, keys = changes["store"].to_numpy(), changes["key"]
        again = pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
        twice = np.flatnonzero(again & (stores[1:] == stores[:-1]))
        if len(twice) or (stores[0], keys[0].as_py()) == self.changed:
            key = keys[int(twice[0]) if len(twice) else 0].as_py()
            raise TaskError(
                Code.INVALID_RESULT, f"the function returned two states of the key {key!r}: return one row for each key"
            )
        self.changed = (int(stores[-1]), keys[-1].as_py())

    def fresh(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows at or after the position, once it is proven that none before them is missing or out of order."""
        if not rows.num_rows:
            return rows
        offsets, ordinals = rows["o_offset"].to_numpy(), rows["o_ordinal"].to_numpy()
        steps = np.diff(offsets, prepend=self.last_offset)
        if (steps < 0).any():
            at = offsets[np.argmax(steps < 0)]
            raise TaskError(
                Code.ROWS_OUT_OF_ORDER,
                f"rows came out of order at source offset {at}: a transform that does so is not `ordered`",
            )
        jumps = np.diff(ordinals, prepend=self.next_ordinal - 1) - (steps > 0)
        if jumps.any() and self.job.total:
            at = int(np.argmax(jumps != 0))
            raise left_out(self.job, self.attempt.partition, int(jumps[at]), int(offsets[at]))
        self.last_offset, self.next_ordinal = int(offsets[-1]), int(ordinals[-1]) + 1
        below = int(np.searchsorted(offsets, self.position))
        if below:  # an earlier attempt committed these
            self.before = int(ordinals[below - 1]) if offsets[below - 1] == self.position - 1 else None
        return rows.slice(below)

    def produce(self, rows: pa.RecordBatch) -> None:
        """Produce all complete origins and hold the last one back, so that no cut splits an origin."""
        offsets = rows["o_offset"].to_numpy()
        more = 0
        if self.held is not None:
            more = int(np.searchsorted(offsets, self.held.offset, side="right"))
            self.held.add(rows.slice(0, more))
        if more < rows.num_rows:
            last = int(offsets[-1])
            cut = int(np.searchsorted(offsets, last))
            self.write_held(rows.slice(more, cut - more))
            self.held = Held(last)
            self.held.add(rows.slice(cut))

    def write_held(self, following: pa.RecordBatch | None = None) -> None:
        """Produce the origin that was held back, which is complete now, and the complete ones after it."""
        batches = [] if following is None or not following.num_rows else [following]
        held, self.held = self.held, None
        if held is not None and held.wide:
            if self.open.batch.records_in and not self.job.stateful:
                self.next_batch()  # it may take a while: its transaction begins with it
            for batch in held.batches():
                self.produce_rows(batch)
        elif held is not None:
            batches = [*held.batches(), *batches]
        if batches:
            self.produce_rows(pa.concat_batches(batches))

    def produce_rows(self, rows: pa.RecordBatch) -> None:
        self.open.begin(int(rows["o_offset"][-1].as_py()) + 1)
        self.open.batch.write(rows, self.attempt.reader)
        self.reached = int(rows["o_ordinal"][-1].as_py())
        self.attempt.reach("mid_produce", self.open.batch.start)

    def full(self) -> bool:
        """Whether the batch holds enough, together with the origin that is held back."""
        batch, job = self.open.batch, self.job
        if job.stateful or not batch.records_in:
            return False  # the plan cuts a stateful range: after another cut the state would differ
        records = batch.records_in + (self.held is not None)
        enough = records >= job.batching.records or batch.bytes_out >= job.batching.bytes
        return enough or batch.records_out >= OUTPUTS or len(batch.files) >= FILES

    def late(self) -> bool:
        """Whether to commit what is complete although more may come: the wait might outlast the transaction."""
        if self.job.stateful or not self.open.batch.records_in:
            return False
        return self.open.seconds_open() > self.attempt.patience / 2

    def check_tail(self) -> None:
        """Check that no visible record is between the last row and the end: the transform would have dropped it."""
        if self.last_offset + 1 >= self.planned.end:
            return
        visible = self.attempt.reader.first_visible(self.attempt.partition, self.last_offset + 1, self.planned.end)
        if visible is None:
            return
        if self.job.total:
            raise left_out(self.job, self.attempt.partition, None, visible)
        self.before = None  # some were dropped, and not counted

    def dropped(self) -> int | None:
        """The number of records of the batch that gave no row; None if the task did not see all of them."""
        if self.job.total:
            return 0
        return None if self.before is None else max(0, self.reached - self.before) - self.open.batch.records_in

    def commit(self, next_offset: int) -> None:
        self.open.batch.dropped, self.before = self.dropped(), self.reached
        started = time.monotonic()
        self.entries.append(self.open.commit(next_offset))
        self.commit_seconds += time.monotonic() - started
        self.position = next_offset


def left_out(job: Job, partition: int, count: int | None, offset: int) -> TaskError:
    return TaskError(
        Code.RECORD_LEFT_OUT,
        f"the transform left out {'some' if count is None else count} record(s) of {job.names.source}/{partition} near "
        f"offset {offset}, without an output, an error or skip = true. Return a row with skip = true for what is left "
        "out on purpose, or declare drops=True; nothing of this batch was committed",
    )
