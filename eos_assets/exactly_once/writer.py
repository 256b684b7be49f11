"""One source partition in one task: rows in, committed transactions out, and an outcome that says what became of it."""

import contextlib
import time
import traceback
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException

from eos_assets.errors import MEANINGS, Code, EosError, TaskError
from eos_assets.exactly_once.arrivals import Arrivals
from eos_assets.exactly_once.held import Held
from eos_assets.exactly_once.job import Job, OffsetRange
from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.outcome import Outcome
from eos_assets.exactly_once.pieces import cut
from eos_assets.exactly_once.resume import AlreadyDone, Decision, GoOn, OffsetsMoved, StalePlan
from eos_assets.exactly_once.slice import Slice
from eos_assets.exactly_once.source_reader import SourceReader
from eos_assets.exactly_once.spare import Spare
from eos_assets.exactly_once.transaction import Transaction
from eos_assets.exactly_once.verdicts import Fenced, verdict
from eos_assets.exactly_once.weaker import Untransacted
from eos_assets.kafka.denied import REMEDY, Denied

#: So many digests of fetched files make a ledger entry of about 100 KB.
FILES = 1_000
#: So many outputs are enough for one transaction, however few records they came from.
OUTPUTS = 1_000_000
#: What became of a partition whose attempt ends at step 4.
DECIDED = {AlreadyDone: Code.ALREADY_DONE, StalePlan: Code.STALE_PLAN, OffsetsMoved: Code.OFFSETS_MOVED}


class PartitionWriter:
    """Writes one source partition, a slice at a time. The rows come in the order of their origins."""

    def __init__(self, job: Job, planned: OffsetRange, task_attempt: int) -> None:
        self.job = job
        self.planned = planned
        self.task_attempt = task_attempt
        self.reader = SourceReader(job.kafka, job.names)
        delivery = Transaction if job.mode is Mode.EXACTLY_ONCE else Untransacted
        self.transaction: Transaction | Untransacted = delivery(job, planned, self.reader, task_attempt)
        self.spare = Spare(job, planned.partition)
        self.entries: list[LedgerEntry] = []
        self.commit_seconds = 0.0
        self.position = planned.start
        self.last_offset = planned.start - 1
        self.next_ordinal = 0
        #: The ordinals of the last record before the slice, None if the task did not see it, and of the last in it.
        self.before: int | None = None
        self.reached = -1
        self.held: Held | None = None
        self.arrivals: Arrivals | None = None
        self.changed: tuple[int, bytes | None] | None = None

    def run(self, pieces: Iterable[pa.RecordBatch]) -> Outcome:
        """What another attempt of Spark's may heal is raised; everything else is an outcome with its code."""
        try:
            return self.write(pieces)
        except Exception as failure:
            error = self.coded(failure)
            self.transaction.abandon(error)
            if self.job.spark_retries(error.code, self.task_attempt):
                raise error from failure
            with contextlib.suppress(TaskError):  # the first error is the one that counts
                self.drain()
            return self.outcome(error.code, str(error))
        except BaseException as ended:
            self.transaction.abandon(ended)
            raise
        finally:
            if self.held is not None:
                self.held.close()
            self.transaction.close()
            self.spare.close()
            self.reader.close()

    def coded(self, failure: Exception) -> TaskError:
        """The error with its code. What Spark's side raised never comes here, so all of them are ours."""
        if isinstance(failure, KafkaException):
            failure = verdict(failure.args[0], f"partition {self.planned.partition}")
        if isinstance(failure, Fenced) and self.transaction.timed_out():
            return TaskError(Code.TRANSACTION_TIMED_OUT, self.timed_out())
        if isinstance(failure, Fenced):
            return Fenced(f"a newer attempt took over ({failure})")
        if isinstance(failure, Denied):
            return Denied(self.lacking(failure), failure.kind)
        if isinstance(failure, TaskError):
            return failure
        if isinstance(failure, EosError):
            return TaskError(getattr(failure, "code", Code.TOPIC_UNREADABLE), str(failure))
        traceback.print_exception(failure)  # to the log of the executor
        return TaskError(Code.UNEXPECTED, f"{type(failure).__name__}: {failure}")

    def timed_out(self) -> str:
        remedy = ": declare a longer one, or a smaller slice_records" if self.job.stateful else ""
        return (
            f"partition {self.planned.partition}: the broker aborted a transaction that was open for longer than "
            f"{self.job.transaction_timeout_ms} ms (transaction_timeout_ms{remedy}); nothing of it is visible, and it "
            "is tried again"
        )

    def lacking(self, missing: Denied) -> str:
        """What to grant: no retry heals it, and nothing of this attempt is visible."""
        names, who = self.job.names, f"User:{self.job.kafka.get('sasl.username', 'ANONYMOUS')}"
        places = {
            "transactional id": f"Write on transactional-id {names.transactional_prefix}…",
            "group": f"Read on group {names.group}",
        }
        lacks = places.get(missing.kind, f"a permission on a {missing.kind}")
        remedy = REMEDY.format(principal=who).replace("PIPELINE", names.pipeline)
        return f"{who} lacks {lacks} ({missing}). Nothing of this attempt is visible. {remedy}"

    def write(self, pieces: Iterable[pa.RecordBatch]) -> Outcome:
        if not self.job.stateful:  # there the plan does the cutting
            pieces = cut(pieces, self.job.slice_records)
        self.arrivals = Arrivals(pieces, self.job.transaction_timeout_ms / 20_000)
        decision = self.open()
        if not isinstance(decision, GoOn):
            self.position = decision.position
            self.drain()
            return self.outcome(DECIDED[type(decision)], getattr(decision, "reason", ""))
        self.before = -1 if self.position == self.planned.start else None
        self.take_in(self.arrivals)
        self.write_held()
        self.check_tail()
        self.commit(self.planned.end)
        return self.outcome(Code.COMMITTED)

    def take_in(self, pieces: Iterable[pa.RecordBatch | None]) -> None:
        for piece in pieces:
            if piece is not None:
                fresh = self.fresh(self.without_changes(piece))
                if not fresh.num_rows:
                    continue
                if self.full():  # only now, when there is more: else the last slice might hold one record
                    self.next_slice()
                self.produce(fresh)
            if self.late():
                self.next_slice()

    def drain(self) -> None:
        if self.arrivals is not None:
            self.arrivals.drain()

    def open(self) -> Decision:
        """A new transaction, steps 1 to 4, and an empty slice behind the last commit."""
        if isinstance(self.transaction, Transaction):  # each is used once
            self.transaction.close()
            self.transaction = Transaction(self.job, self.planned, self.reader, self.task_attempt)
            self.transaction.spare = self.spare.take()
        decision = self.transaction.open()
        if isinstance(decision, GoOn):
            self.position = decision.position
            self.slice = Slice(self.job, self.planned.partition, self.position, self.transaction.producer)
        return decision

    def next_slice(self) -> None:
        """Commits what is complete and begins behind it. Whoever moved the position in between is newer than we."""
        self.spare.make()
        self.commit(self.slice.next)
        self.transaction.settle()
        wanted = self.position
        decision = self.open()
        if not isinstance(decision, GoOn) or decision.position != wanted:
            raise Fenced(f"after the commit of {wanted} the position is {getattr(decision, 'position', decision)}")

    def without_changes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Writes the changes of the state, which come sorted behind all other rows, and returns those."""
        if "store" not in rows.schema.names:
            return rows
        changes = rows.slice(rows["store"].null_count)
        if changes.num_rows:
            self.check_once(changes)
            self.transaction.begin()
            self.slice.write_changes(changes)
        return rows.slice(0, rows["store"].null_count)

    def check_once(self, changes: pa.RecordBatch) -> None:
        """Each key changes once: of two states of one key nobody could say which is the last."""
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
        """The rows at or behind the position, after proving that none is missing or out of order before them."""
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
            raise left_out(self.job, self.planned.partition, int(jumps[at]), int(offsets[at]))
        self.last_offset, self.next_ordinal = int(offsets[-1]), int(ordinals[-1]) + 1
        below = int(np.searchsorted(offsets, self.position))
        if below:  # an earlier attempt committed these
            self.before = int(ordinals[below - 1]) if offsets[below - 1] == self.position - 1 else None
        return rows.slice(below)

    def produce(self, rows: pa.RecordBatch) -> None:
        """Produces all complete origins and holds the last one back, so that a cut behind them tears none."""
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
        """Produces the origin that was held back, which is complete now, and the complete ones behind it."""
        batches = [] if following is None or not following.num_rows else [following]
        held, self.held = self.held, None
        if held is not None and held.wide:
            if self.slice.records_in and not self.job.stateful:
                self.next_slice()  # it may take a while: let its transaction begin with it
            for batch in held.batches():
                self.slice_write(batch)
        elif held is not None:
            batches = [*held.batches(), *batches]
        if batches:
            self.slice_write(pa.concat_batches(batches))

    def slice_write(self, rows: pa.RecordBatch) -> None:
        self.transaction.begin(int(rows["o_offset"][-1].as_py()) + 1)
        self.slice.write(rows, self.reader)
        self.reached = int(rows["o_ordinal"][-1].as_py())
        self.transaction.reach("mid_produce")

    def full(self) -> bool:
        """Whether the slice holds enough, together with the origin that is held back."""
        if self.job.stateful:
            return False  # the plan does the cutting: behind a cut the state would be another one
        if not self.slice.records_in:
            return False
        held = 0 if self.held is None else 1
        enough = self.slice.records_in + held >= self.job.slice_records or self.slice.bytes_out >= self.job.slice_bytes
        return enough or self.slice.records_out >= OUTPUTS or len(self.slice.files) >= FILES

    def late(self) -> bool:
        """Whether to commit what is complete, although there may be more: the wait might outlast the transaction."""
        if not isinstance(self.transaction, Transaction) or self.job.stateful or not self.slice.records_in:
            return False
        return self.transaction.open_for() > self.job.transaction_timeout_ms / 2000

    def check_tail(self) -> None:
        """Nothing visible may lie between the last row and the end: the transform would have dropped it."""
        if self.last_offset + 1 >= self.planned.end:
            return
        visible = self.reader.first_visible(self.planned.partition, self.last_offset + 1, self.planned.end)
        if visible is None:
            return
        if self.job.total:
            raise left_out(self.job, self.planned.partition, None, visible)
        self.before = None  # some were dropped, and nobody counted them

    def dropped(self) -> int | None:
        """How many records of the slice gave no row; None if the task did not see all of them."""
        if self.job.total:
            return 0
        return None if self.before is None else max(0, self.reached - self.before) - self.slice.records_in

    def commit(self, next_offset: int) -> None:
        self.slice.dropped, self.before = self.dropped(), self.reached
        begun = time.monotonic()
        self.entries.append(self.transaction.commit(self.slice, next_offset))
        self.commit_seconds += time.monotonic() - begun
        self.position = next_offset

    def outcome(self, code: Code, reason: str = "") -> Outcome:
        return Outcome(
            partition=self.planned.partition,
            outcome=MEANINGS[code].outcome,
            start=self.entries[0].start if self.entries else self.position,
            next=self.position,
            records_in=sum(entry.records_in for entry in self.entries),
            records_out=sum(entry.records_out for entry in self.entries),
            skipped=sum(entry.skipped for entry in self.entries),
            dead=sum(entry.dead for entry in self.entries),
            transactions=len(self.entries),
            bytes_out=sum(entry.bytes_out for entry in self.entries),
            commit_ms=self.commit_seconds * 1000,
            task_attempt=self.task_attempt,
            reason=reason,
            code=code,
        )


def left_out(job: Job, partition: int, count: int | None, offset: int) -> TaskError:
    return TaskError(
        Code.RECORD_LEFT_OUT,
        f"the transform left out {'some' if count is None else count} record(s) of {job.names.source}/{partition} near "
        f"offset {offset}, without an output, an error or skip = true. Return a row with skip = true for what is left "
        "out on purpose, or declare drops=True; nothing of this slice was committed",
    )
