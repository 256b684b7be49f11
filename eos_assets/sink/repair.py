"""Writes again what is missing of one source partition, by the protocol of `transaction.py`.

The plan of a repair may be old: another repair may have committed since. So step 3 also reads the repairs that were
committed after the plan, and what they wrote is left out.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.errors import Code, TaskError
from eos_assets.kafka.producer import Producer
from eos_assets.log.ledger import LedgerEntry, LostOutputs, Repair
from eos_assets.log.ranges import OffsetRange
from eos_assets.sink.delivery import NothingToWrite
from eos_assets.sink.job import Job
from eos_assets.sink.numbering import Numbering
from eos_assets.sink.outcome import Outcome
from eos_assets.sink.router import Integers
from eos_assets.sink.task import OpenWriter
from eos_assets.sink.transaction import Transaction
from eos_assets.sink.transaction_batch import TransactionBatch
from eos_assets.sink.writer import ENDED, PartitionWriter

#: The range of an attempt: a repair depends on no position, so it goes on from whatever the ledger has.
ANYWHERE = (0, 1 << 62)
#: Source offset and sequence of an output, or `SKIP` for a skip.
OutputId = tuple[int, int]
#: Instead of a sequence: one map row names the skip of a source record, however many rows it has.
SKIP = -1


@dataclass(frozen=True)
class MissingOutput:
    """An output that is to be written again: what the transform gave for it when the repair was planned."""

    topic: str
    partition: int
    #: 0 for a dead letter or a skip.
    digest: int
    #: The transaction that had written it, by the `start` of its maps; None if no map names it.
    lost_from: int | None = None


MissingOutputs = dict[OutputId, MissingOutput]


@dataclass(frozen=True)
class PartitionRepair:
    """What is missing of one source partition, and what had been committed when that was found."""

    outputs: MissingOutputs
    #: The number of earlier repairs.
    repairs: int
    #: The ends of what was read of the ledger and of the provenance topic.
    ledger_end: int
    provenance_end: int


class RepairBatch(TransactionBatch):
    """The records of one repair. Its maps and its ledger entry have its number."""

    def __init__(
        self, job: Job, partition: int, producer: Producer, number: int, position: int, outputs: MissingOutputs
    ) -> None:
        super().__init__(job, partition, -number, producer)
        self.position = position
        self.outputs = outputs

    def _ledger_value(self, entry: LedgerEntry) -> bytes:
        offsets = [offset for offset, _ in self.outputs]
        return Repair(
            pipeline=entry.pipeline,
            topic=entry.topic,
            partition=entry.partition,
            number=-self.start,
            position=self.position,
            first=min(offsets),
            last=max(offsets),
            records_in=entry.records_in,
            records_out=entry.records_out,
            skipped=entry.skipped,
            dead=entry.dead,
            sinks=entry.sinks,
            lost=sum_lost(self.outputs.values()),
            run=entry.run,
            run_attempt=entry.run_attempt,
            task_attempt=entry.task_attempt,
            code_version=entry.code_version,
            began_ms=entry.began_ms,
            ended_ms=entry.ended_ms,
            mode=entry.mode,
            bytes_out=entry.bytes_out,
        ).to_json()


def sum_lost(outputs: Iterable[MissingOutput]) -> tuple[LostOutputs, ...]:
    """Count and digest of the outputs that each transaction had written to each partition of a topic."""
    sums: dict[tuple[int, str, int], tuple[int, int]] = {}
    for output in outputs:
        if output.lost_from is not None:
            place = (output.lost_from, output.topic, output.partition)
            count, digest = sums.get(place, (0, 0))
            sums[place] = (count + 1, (digest + output.digest) % 2**64)
    return tuple(LostOutputs(*place, *sums[place]) for place in sorted(sums))


class PartitionRepairer(PartitionWriter):
    """Writes what is missing of one source partition in one transaction."""

    def __init__(self, job: Job, planned: OffsetRange, task_attempt: int, repair: PartitionRepair) -> None:
        super().__init__(job, planned, task_attempt)
        self.repair = repair
        self.transaction: Transaction | None = None

    def run(self, rows: Iterable[pa.RecordBatch], stop: Callable[[], None] | None = None) -> Outcome:
        try:
            return super().run(rows, stop)
        finally:
            if self.transaction is not None:
                self.transaction.close()

    def _write(self, rows: Iterable[pa.RecordBatch]) -> Outcome:
        missing = list(missing_rows(rows, self.attempt.partition, self.repair.outputs))
        check_outputs(missing, self.repair.outputs, self.attempt.partition)
        # Steps 1 to 4.
        opened = self.delivery.open()
        if not isinstance(opened, Transaction):
            assert isinstance(opened, NothingToWrite)
            return self._outcome(ENDED[type(opened)], opened.position, getattr(opened, "reason", ""))
        self.transaction, position = opened, opened.batch.start
        number, outputs = self._still_missing()
        if not outputs:
            return self._outcome(Code.ALREADY_DONE, position)
        # Steps 5 and 6.
        opened.batch = RepairBatch(self.attempt.job, self.attempt.partition, opened.producer, number, position, outputs)
        opened.begin(position)
        for batch in missing_rows(missing, self.attempt.partition, outputs):
            opened.batch.write(batch, self.attempt.reader)
        self.attempt.reach("mid_produce", opened.batch.start)
        started = time.monotonic()
        entry = opened.commit(position)
        return Outcome.of_entries(
            self.attempt.partition,
            Code.COMMITTED,
            [replace(entry, start=position)],
            start=position,
            position=position,
            commit_ms=(time.monotonic() - started) * 1000,
            task_attempt=self.attempt.task_attempt,
            reason="",
        )

    def _still_missing(self) -> tuple[int, MissingOutputs]:
        """The number of this repair, and what no other repair has written since the plan was made. After
        `init_transactions` no other one can commit before this one."""
        attempt, plan = self.attempt, self.repair
        number = plan.repairs + len(attempt.reader.repairs(attempt.partition, plan.ledger_end)) + 1
        repaired: set[OutputId] = set()
        for one in attempt.reader.repair_maps(attempt.partition, plan.provenance_end):
            sequences = np.full(len(one.sequences), SKIP) if one.skips else one.sequences
            repaired.update(zip(one.source_offsets.tolist(), sequences.tolist(), strict=True))
        return number, {output: place for output, place in plan.outputs.items() if output not in repaired}

    def _abandon(self, failure: BaseException) -> None:
        if self.transaction is not None:
            self.transaction.abandon(failure)

    def _timed_out(self) -> bool:
        return self.transaction is not None and self.transaction.seconds_open() > self.attempt.timeout


def repairing(repairs: dict[int, PartitionRepair]) -> OpenWriter:
    """What writes these repairs, by source partition."""

    def open_writer(job: Job, planned: OffsetRange, task_attempt: int) -> PartitionRepairer:
        return PartitionRepairer(job, planned, task_attempt, repairs[planned.partition])

    return open_writer


def missing_rows(
    batches: Iterable[pa.RecordBatch], partition: int, outputs: MissingOutputs
) -> Iterator[pa.RecordBatch]:
    """The rows of missing outputs, each with its sequence. All rows of a source record are needed to number them."""
    numbering = Numbering(partition)
    for rows in batches:
        if not rows.num_rows:
            continue
        offsets = rows["o_offset"].to_numpy()
        sequences = numbering.number(rows, offsets)
        wanted = [row for row, output in enumerate(output_ids(rows, offsets, sequences)) if output in outputs]
        if wanted:
            chosen = rows.take(pa.array(wanted))
            if "sequence" in chosen.schema.names:
                chosen = chosen.drop_columns(["sequence"])
            yield chosen.append_column("sequence", pa.array(sequences[wanted], pa.int64()))


def output_ids(rows: pa.RecordBatch, offsets: Integers, sequences: Integers) -> Iterator[OutputId]:
    """What identifies each row among those of its source partition."""
    numbers = np.where(flags(rows, "skip"), SKIP, sequences)
    return zip(offsets.tolist(), numbers.tolist(), strict=True)


def flags(rows: pa.RecordBatch, column: str) -> npt.NDArray[np.bool_]:
    """Whether each row has this flag; none, where the transform returns no such column."""
    if column not in rows.schema.names:
        return np.zeros(rows.num_rows, bool)
    set_flags: npt.NDArray[np.bool_] = pc.fill_null(rows[column], False).to_numpy(zero_copy_only=False)
    return set_flags


def check_outputs(batches: Iterable[pa.RecordBatch], outputs: MissingOutputs, partition: int) -> None:
    """Refuse to write anything else than what was planned."""
    returned: dict[OutputId, int] = {}
    for rows in batches:
        offsets, sequences = rows["o_offset"].to_numpy(), rows["sequence"].to_numpy()
        rejected = np.zeros(rows.num_rows, bool)
        if "error" in rows.schema.names:
            rejected = rows["error"].is_valid().to_numpy(zero_copy_only=False)
        digests = np.where(rejected | flags(rows, "skip"), np.uint64(0), rows["digest"].to_numpy().view(np.uint64))
        returned.update(zip(output_ids(rows, offsets, sequences), digests.tolist(), strict=True))
    planned = {output: missing.digest for output, missing in outputs.items()}
    if returned != planned:
        offset, _ = min(output for output, _ in returned.items() ^ planned.items())
        raise TaskError(
            Code.INVALID_RESULT,
            f"for source offset {offset} of partition {partition} the transform gives something else than when the "
            "repair was planned: nothing was written",
        )
