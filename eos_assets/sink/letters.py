"""Marks dead letters of one source partition, and writes what a replay gives for them, by the protocol of
`transaction.py`.

The choice of the letters may be old: another replay may have committed since. So step 3 also reads the marks, after
`init_transactions`, and a letter that was replayed or discarded is left out.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.producer import Producer
from eos_assets.log import ledger
from eos_assets.log.ledger import REJECTED, REPLAYED, LedgerEntry, LetterEntry, LetterMark
from eos_assets.log.letter_marks import Status, last_marks, letter_entries
from eos_assets.sink.delivery import Delivery, NothingToWrite
from eos_assets.sink.job import Attempt, Job, Outcome
from eos_assets.sink.numbering import Numbering
from eos_assets.sink.range_writer import HeldRows, RangeWriter
from eos_assets.sink.router import Integers
from eos_assets.sink.task import OpenWriter
from eos_assets.sink.transaction import Transaction
from eos_assets.sink.transaction_batch import TransactionBatch
from eos_assets.sink.writer import ENDED, PartitionWriter

#: The most characters of a reason in a mark: an entry with many marks must fit into one message.
MARK_CHARACTERS = 300
#: What no position is outside of: letters are marked at whatever position the ledger has.
ANY_POSITION = (0, 1 << 62)


@dataclass(frozen=True)
class LetterPlan:
    """What is to be done about letters of one source partition."""

    #: Who asked for it.
    by: str
    #: Source offset of a letter to replay → the first sequence that none of its earlier rows has.
    sequences: Mapping[int, int] = field(default_factory=dict)
    #: Marks of letters that give no rows: those to discard, and those on which the transform raises.
    marks: tuple[LetterMark, ...] = ()

    def without(self, done: Iterable[int]) -> "LetterPlan":
        """The plan without these letters."""
        offsets = frozenset(done)
        sequences = {offset: first for offset, first in self.sequences.items() if offset not in offsets}
        return LetterPlan(self.by, sequences, tuple(mark for mark in self.marks if mark.offset not in offsets))


class LetterNumbering(Numbering):
    """Numbers the outputs of replayed letters after the rows that their source records gave before."""

    def __init__(self, partition: int, sequences: Mapping[int, int]) -> None:
        super().__init__(partition)
        self.sequences = sequences

    def number(self, rows: pa.RecordBatch, offsets: Integers) -> Integers:
        firsts: Integers = np.array([self.sequences[offset] for offset in offsets.tolist()], np.int64)
        return firsts + super().number(rows, offsets)


class LetterBatch(TransactionBatch):
    """The marks of one transaction, and the outputs of its replayed letters. Its maps and its ledger entry carry its
    number."""

    def __init__(
        self, job: Job, partition: int, producer: Producer, *, number: int, position: int, plan: LetterPlan
    ) -> None:
        super().__init__(job, partition, -number, producer)
        self.position = position
        self.plan = plan
        self.numbering = LetterNumbering(partition, plan.sequences)
        self.marks = list(plan.marks)

    def _ledger_value(self, entry: LedgerEntry) -> bytes:
        return LetterEntry(
            pipeline=entry.pipeline,
            topic=entry.topic,
            partition=entry.partition,
            number=-self.start,
            position=self.position,
            marks=tuple(sorted(self.marks, key=lambda mark: mark.offset)),
            by=self.plan.by,
            records_out=entry.records_out,
            skipped=entry.skipped,
            sinks=entry.sinks,
            run=entry.run,
            run_attempt=entry.run_attempt,
            task_attempt=entry.task_attempt,
            code_version=entry.code_version,
            began_ms=entry.began_ms,
            ended_ms=entry.ended_ms,
            mode=entry.mode,
            bytes_out=entry.bytes_out,
            files=entry.files,
        ).to_json()


class LetterRows(RangeWriter):
    """Writes the rows of the letters in one transaction: all rows of a letter, or its new reason and none of them."""

    def __init__(self, attempt: Attempt, delivery: Delivery, first: Transaction, batch: LetterBatch) -> None:
        super().__init__(attempt, delivery, first)
        self.batch = batch
        self.position = batch.position
        self.marked: set[int] = set()
        #: Why the held letter is rejected again; None if it is not.
        self.rejected: str | None = None

    def write(self, batches: Iterable[pa.RecordBatch | None]) -> None:
        """Write the rows, which are in the order of their origins, and commit unless every letter was done already."""
        for rows in filter(None, batches):
            offsets = rows["o_offset"].to_numpy()
            cuts = [0, *(np.flatnonzero(np.diff(offsets)) + 1).tolist(), len(offsets)]
            for low, high in itertools.pairwise(cuts):
                if high > low:
                    self._hold(int(offsets[low]), rows.slice(low, high - low))
        self._finish_letter()
        if missing := sorted(set(self.batch.plan.sequences) - self.marked):
            raise TaskError(
                Code.RECORD_LEFT_OUT,
                f"the transform returned no row for the dead letter of {self.job.names.source}/"
                f"{self.attempt.partition} offset {missing[0]}: return an output, an error or skip = true",
            )
        if self.batch.marks:
            self.current.commit(self.position)

    def _hold(self, offset: int, rows: pa.RecordBatch) -> None:
        """Keep the rows of one letter until all have arrived: if one is rejected, none is written."""
        if self.held is None or self.held.offset != offset:
            self._finish_letter()
            self.held = HeldRows(offset)
        self.held.add(rows)
        if self.rejected is None and "error" in rows.schema.names and rows["error"].null_count < rows.num_rows:
            self.rejected = rows["error"].drop_null()[0].as_py().decode(errors="replace")

    def _finish_letter(self) -> None:
        held, rejected = self.held, self.rejected
        self.held = self.rejected = None
        if held is None:
            return
        if held.offset in self.batch.plan.sequences:
            self.marked.add(held.offset)
            self.batch.marks.append(self._mark(held.offset, rejected))
            if rejected is None:
                self.current.begin(self.position)
                for rows in held.batches():
                    self.batch.write(rows, self.attempt.reader)
                self.attempt.reach("mid_produce", self.batch.start)
        held.close()

    def _mark(self, offset: int, rejected: str | None) -> LetterMark:
        if rejected is None:
            return LetterMark(offset, REPLAYED)
        return LetterMark(offset, REJECTED, rejected[:MARK_CHARACTERS])


class LetterWriter(PartitionWriter):
    """Replays or discards letters of one source partition, in one transaction."""

    def __init__(self, job: Job, planned: OffsetRange, task_attempt: int, *, plans: Mapping[int, LetterPlan]) -> None:
        super().__init__(job, OffsetRange(planned.partition, *ANY_POSITION), task_attempt)
        self.plan = plans[planned.partition]

    def _write(self, rows: Iterable[pa.RecordBatch]) -> Outcome:
        opened = self.delivery.open()
        if isinstance(opened, NothingToWrite):
            return self._outcome(ENDED[type(opened)], opened.position, getattr(opened, "reason", ""))
        assert isinstance(opened, Transaction)
        try:
            opened.batch = batch = self._open_batch(opened)
        except BaseException:
            opened.close()
            raise
        self.range_writer = writer = LetterRows(self.attempt, self.delivery, opened, batch)
        writer.write(rows)
        return self._outcome(Code.COMMITTED if batch.marks else Code.ALREADY_DONE)

    def _open_batch(self, opened: Transaction) -> LetterBatch:
        """The rest of step 3: read the marks. No other transaction of this partition can commit from now on."""
        job, partition = self.attempt.job, self.attempt.partition
        messages = list(self.attempt.reader.amendments(partition))
        marks = last_marks(letter_entries(messages))
        # What an earlier attempt of this run has rejected again stays open, and is done.
        done = [offset for (_, offset), mark in marks.items() if mark.status is not Status.OPEN or mark.run == job.run]
        return LetterBatch(
            job,
            partition,
            opened.producer,
            number=1 + max(map(ledger.number_of, messages), default=0),
            position=opened.batch.start,
            plan=self.plan.without(done),
        )


def letter_writer(plans: Mapping[int, LetterPlan]) -> OpenWriter:
    """What a task opens for each source partition."""
    return partial(LetterWriter, plans=plans)
