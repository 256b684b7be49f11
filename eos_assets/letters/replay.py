"""Replay dead letters: today's transform on the records that were rejected, delivered and marked in one transaction."""

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.errors import Code, EosError, Reaction
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.letters.earlier_rows import find_earlier_rows
from eos_assets.letters.letter import Letter, LetterFilter, Origin, by_partition, choose_letters
from eos_assets.letters.marking import LetterReport, fill_report, ledger_ends, until_done, write_marks
from eos_assets.letters.original import Original, read_originals, records_frame
from eos_assets.log.ledger import REJECTED, LetterMark
from eos_assets.run.job import collect
from eos_assets.run.partition_alignment import run_task
from eos_assets.run.plan import Planner
from eos_assets.run.preflight.preflight import run_preflight
from eos_assets.run.refusals import refusal
from eos_assets.run.run import RunOptions, job_runner
from eos_assets.sink.job import NO_PARTITION, Job, NoFaults, Outcome
from eos_assets.sink.letters import MARK_CHARACTERS, LetterPlan, letter_writer
from eos_assets.sink.task import writing_task
from eos_assets.transform.arrow_function import ArrowFunction
from eos_assets.transform.determinism import check_determinism
from eos_assets.transform.result_schema import apply_transform, row_without_origin, worker_rows
from eos_assets.transform.spark_errors import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

#: The most letters, and about the most bytes of their records, of one Spark job: one transaction of each partition.
LETTERS = 500
BYTES = 16 << 20

DELIVERED = (
    "its source record also gave outputs or a skip, so a replay would deliver something twice: correct the record in a "
    "new one, or discard the letter"
)
UNMAPPED = (
    "retention has removed the map of its transaction, so it is unknown what else its source record gave: discard it, "
    "or send the record to the source again"
)
NO_ORIGINAL = (
    "it does not hold the headers or the timestamp of its source record, because an earlier version wrote it: send the "
    "record to the source again, and discard the letter"
)


@dataclass
class ReplayOptions:
    """What a user may choose for one replay."""

    by: str
    faults: NoFaults = field(default_factory=NoFaults)
    accepted_spark: str | None = None
    #: The name of the run in the ledger; default: a random one.
    run_id: str | None = None


def replay_letters(context: PipelineContext, chosen: LetterFilter, options: ReplayOptions) -> LetterReport:
    """Replay the chosen letters, of which there must be at least one."""
    check_replayable(context)
    letters = choose_letters(context.pipeline, context.kafka, chosen)
    started, starts = time.monotonic(), ledger_ends(context.pipeline, context.kafka, letters)
    report = LetterReport(options.run_id or uuid.uuid4().hex[:12], context.pipeline.name, options.by)
    run_options = RunOptions(faults=options.faults, accepted_spark=options.accepted_spark)
    preflight = run_preflight(context, Planner(context, None, None, None), options.accepted_spark)
    replay = Replay(context, job_runner(context, run_options, preflight, report.run).template, report)
    replay.execute(letters)
    fill_report(report, context.pipeline, context.kafka, starts, letters)
    report.seconds = time.monotonic() - started
    return report


def check_replayable(context: PipelineContext) -> None:
    """Refuse a pipeline whose letters cannot be replayed one by one."""
    pipeline = context.pipeline
    if pipeline.stateful:
        raise EosError(
            f"The dead letters of {pipeline.name} cannot be replayed: it keeps state, and folding a record now is not "
            "folding it in its place.",
            "Send the corrected records to the source, and discard the letters.",
        )
    if pipeline.drops:
        raise EosError(
            f"The dead letters of {pipeline.name} cannot be replayed: it declares drops=True, so a letter that gives "
            "no row would be neither delivered nor rejected.",
            "Return rows with skip = true instead of filtering, or send the corrected records to the source and "
            "discard the letters.",
        )


class Replay:
    """One replay of some letters."""

    def __init__(self, context: PipelineContext, job: Job, report: LetterReport) -> None:
        self.context = context
        self.job = job
        self.report = report
        #: Letter → the first sequence that no earlier row of its source record has.
        self.sequences: dict[Origin, int] = {}

    def execute(self, letters: Sequence[Letter]) -> None:
        """Replay what can be replayed, a part at a time, and note the rest as refused."""
        for partition, in_partition in by_partition(letters):
            self._check_earlier_rows(partition, in_partition)
        replayable = sorted(
            (letter for letter in letters if letter.origin in self.sequences), key=lambda letter: letter.origin
        )
        self.report.refused |= {letter.origin: NO_ORIGINAL for letter in replayable}
        for originals in parts(read_originals(self.context, replayable)):
            for original in originals:
                del self.report.refused[original.origin]
            self._replay(originals)

    def _check_earlier_rows(self, partition: int, letters: Sequence[Letter]) -> None:
        """Refuse letters whose source records gave something else, or of which that is unknown."""
        offsets, oldest = [letter.origin[1] for letter in letters], min(letter.written_ms for letter in letters)
        earlier = find_earlier_rows(self.context, partition, offsets, oldest)
        for letter in letters:
            rows = earlier.get(letter.origin[1])
            if rows is None or not rows.rejected:
                self.report.refused[letter.origin] = UNMAPPED
            elif rows.delivered:
                self.report.refused[letter.origin] = DELIVERED
            else:
                self.sequences[letter.origin] = rows.next_sequence

    def _replay(self, originals: Sequence[Original]) -> None:
        """Replay some letters in one job. One on which the transform raises is found by halving, and rejected again."""
        try:
            self._write(originals)
        except TransformRaised as raised:
            if len(originals) == 1:
                partition, offset = originals[0].origin
                mark = LetterMark(offset, REJECTED, str(raised)[:MARK_CHARACTERS])
                write_marks(self.job, self.report.by, {partition: [mark]}, self.report)
                return
            middle = len(originals) // 2
            self._replay(originals[:middle])
            self._replay(originals[middle:])

    def _write(self, originals: Sequence[Original]) -> None:
        left = {original.origin[0] for original in originals}

        def attempt(number: int) -> list[Outcome]:
            chosen = [original for original in originals if original.origin[0] in left]
            outcomes = self._run_job(chosen, number)
            left.difference_update(o.partition for o in outcomes if o.reaction is Reaction.DONE)
            return outcomes

        until_done(attempt, self.report)

    def _run_job(self, originals: Sequence[Original], number: int) -> list[Outcome]:
        """Run one Spark job. Each of its tasks writes one source partition."""
        partitions = sorted({original.origin[0] for original in originals})
        plans = {p: LetterPlan(self.report.by, self._sequences_of(p, originals)) for p in partitions}
        job = replace_ranges(self.job, partitions, number)
        records = records_frame(self.context, originals)
        rows = whole_letters(self.transform(records), len(partitions))
        try:
            outcomes = collect(run_task(rows, writing_task(job, letter_writer(plans))))
        except Exception as failure:
            return [self._react(failure)]
        self._check(outcomes, partitions)
        return outcomes

    def transform(self, records: "DataFrame") -> "DataFrame":
        """The rows that the transform returns, as they travel to a task."""
        pipeline = self.context.pipeline
        result = apply_transform(pipeline, records)
        check_determinism(pipeline, records, [result])
        if pipeline.takes_batches and "sequence" not in (ArrowFunction.of(pipeline).result_columns or ()):
            result = result.drop("sequence")  # the frame of an Arrow pipeline has every column
        return worker_rows(result)

    def _sequences_of(self, partition: int, originals: Iterable[Original]) -> dict[int, int]:
        origins = (original.origin for original in originals)
        return {origin[1]: self.sequences[origin] for origin in origins if origin[0] == partition}

    def _react(self, failure: Exception) -> Outcome:
        """What a failed job means: a retry, an error of the transform on a record, or the end."""
        reported = classify(failure)
        if reported.code is Code.TRANSFORM_RAISED:
            raise TransformRaised(reported.message) from failure
        outcome = Outcome.of_entries(
            NO_PARTITION, reported.code, [], start=0, position=0, commit_ms=0, task_attempt=0, reason=reported.described
        )
        if outcome.reaction is Reaction.STOP:
            raise refusal(self.context, reported.code, reported.message, reported.described) from failure
        return outcome

    def _check(self, outcomes: Sequence[Outcome], partitions: Sequence[int]) -> None:
        if any(outcome.code == Code.ROW_WITHOUT_ORIGIN for outcome in outcomes):
            raise row_without_origin(self.context.pipeline)
        missing = sorted(set(partitions) - {outcome.partition for outcome in outcomes})
        if missing and NO_PARTITION not in {outcome.partition for outcome in outcomes}:
            raise EosError(
                f"The transform of {self.context.pipeline.name} returned no row for any dead letter of "
                f"{self.context.pipeline.source.name}/{missing[0]}.",
                "Let it return an output, an error or skip = true for each. Nothing of them was marked.",
            )


class TransformRaised(Exception):
    """The transform raises on one of the records."""


def replace_ranges(job: Job, partitions: Iterable[int], number: int) -> Job:
    """The job for some source partitions. A replay reads no range of the source."""
    return replace(job, ranges={p: OffsetRange(p, 0, 0) for p in partitions}, run_attempt=number)


def whole_letters(rows: "DataFrame", partitions: int) -> "DataFrame":
    """All rows of a source partition in one task, letter by letter, each in its order."""
    if "sequence" in rows.columns:
        order = ["o_partition", "o_offset", "sequence"]
    else:
        rows = rows.selectExpr("*", "monotonically_increasing_id() AS arrived")
        order = ["o_partition", "o_offset", "arrived"]
    whole = rows.repartition(partitions, "o_partition").sortWithinPartitions(*order)
    return whole.drop("arrived")


def parts(originals: Iterable[Original]) -> Iterator[list[Original]]:
    """Parts that are small enough for one job."""
    part: list[Original] = []
    for original in originals:
        if part and (len(part) == LETTERS or sum(each.size for each in part) + original.size > BYTES):
            yield part
            part = []
        part.append(original)
    if part:
        yield part
