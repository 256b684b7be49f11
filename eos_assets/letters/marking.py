"""Commits the transactions of a replay or a discard, each until it is done: fenced or failed attempts are repeated."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import MEANINGS, Code, EosError, Reaction
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import OffsetRange, await_stable, bounds, stable_ends
from eos_assets.kafka.reader import read_partitions
from eos_assets.letters.letter import Letter, Origin, by_partition
from eos_assets.log.ledger import DISCARDED, REJECTED, REPLAYED, LetterEntry, LetterMark
from eos_assets.log.letter_marks import letter_entries
from eos_assets.run.report import LEDGER_SECONDS
from eos_assets.sink.job import Job, Outcome
from eos_assets.sink.letters import LetterPlan, LetterWriter

#: How often a transaction is tried, and how long a fenced attempt waits: the newer one needs about this time.
ATTEMPTS = 20
FENCED_SECONDS = 0.5


@dataclass
class LetterReport:
    """What became of the chosen letters, according to the ledger."""

    run: str
    pipeline: str
    by: str
    entries: list[LetterEntry] = field(default_factory=list)
    #: The letters that nothing was done about, and why.
    refused: dict[Origin, str] = field(default_factory=dict)
    #: The letters that another replay or discard marked meanwhile.
    marked_by_others: list[Origin] = field(default_factory=list)
    #: Why attempts failed.
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def marked(self, outcome: str) -> dict[Origin, str]:
        """The letters with this outcome, and the reason in their marks."""
        marks = ((entry.partition, mark) for entry in self.entries for mark in entry.marks)
        return {(partition, mark.offset): mark.reason for partition, mark in marks if mark.outcome == outcome}

    @property
    def records_out(self) -> int:
        return sum(entry.records_out for entry in self.entries)

    @property
    def skipped(self) -> int:
        return sum(entry.skipped for entry in self.entries)

    @property
    def complete(self) -> bool:
        """Whether no letter was rejected again or refused."""
        return not self.refused and not self.marked(REJECTED)

    def __str__(self) -> str:
        replayed, rejected, discarded = (len(self.marked(o)) for o in (REPLAYED, REJECTED, DISCARDED))
        figures = {
            "replayed": replayed,
            "rejected again": rejected,
            "discarded": discarded,
            "refused": len(self.refused),
            "marked by others meanwhile": len(self.marked_by_others),
        }
        counts = ", ".join(f"{n:,} {name}" for name, n in figures.items() if n) or "nothing done"
        outputs = f"; {self.records_out:,} record(s) out" if replayed else ""
        return f"{self.pipeline}: {counts}{outputs}, in {len(self.entries):,} transaction(s) of run {self.run[:8]}"


def until_done(attempt: Callable[[int], Sequence[Outcome]], report: LetterReport) -> None:
    """Repeat an attempt until every outcome is done. What must not be repeated is raised with its remedy.

    Args:
        attempt: takes its number, from 1, and returns an outcome for each source partition that is not done yet.
        report: where failures are noted.
    """
    for number in range(1, ATTEMPTS + 1):
        outcomes = attempt(number)
        reactions = {outcome.reaction for outcome in outcomes}
        if reactions <= {Reaction.DONE}:
            return
        for outcome in outcomes:
            if outcome.reaction is Reaction.STOP:
                remedy = MEANINGS[Code(outcome.code)].remedy
                raise EosError(f"{report.pipeline}: {outcome.reason}", f"{remedy[:1].upper()}{remedy[1:]}.")
            if outcome.reaction is not Reaction.DONE:
                report.failures.append(outcome.reason)
        if Reaction.WAIT in reactions:
            time.sleep(FENCED_SECONDS)
    raise EosError(
        f"{report.pipeline}: the transactions of the dead letters failed {ATTEMPTS} times; the last failure was: "
        f"{report.failures[-1]}",
        "Nothing of a failed transaction is visible. Correct what it reports, and run the same command again.",
    )


def write_marks(job: Job, by: str, marks: dict[int, Sequence[LetterMark]], report: LetterReport) -> None:
    """Mark letters that give no rows, in this process.

    Args:
        job: names the pipeline and the cluster.
        by: who asks for it.
        marks: source partition → marks.
        report: where failures are noted.
    """
    for partition, chosen in sorted(marks.items()):
        plan = LetterPlan(by, marks=tuple(chosen))

        def attempt(number: int, partition: int = partition, plan: LetterPlan = plan) -> list[Outcome]:
            alone = replace(job, run_attempt=number, task_attempts=1)
            return [LetterWriter(alone, OffsetRange(partition, 0, 0), 0, plans={partition: plan}).run([])]

        until_done(attempt, report)


def fill_report(
    report: LetterReport, pipeline: Pipeline, connection: Connection, starts: dict[int, int], letters: Sequence[Letter]
) -> None:
    """Read from the ledger what was committed. A letter that was neither marked nor refused has another run's mark.

    Args:
        report: the report to complete.
        pipeline: whose letters they are.
        connection: the cluster.
        starts: source partition → where its ledger ended before the first transaction.
        letters: the letters that were chosen.
    """
    topic = pipeline.names().ledger
    # The end of a transaction reaches the ledger some time after its commit.
    ends = {(topic, p): bound.high for p, bound in bounds(connection, topic, list(starts)).items()}
    await_stable(connection, [topic], ends, LEDGER_SECONDS)
    messages = read_partitions(connection, {(topic, partition): start for partition, start in starts.items()})
    report.entries = [entry for entry in letter_entries(messages) if entry.run == report.run]
    known = {(entry.partition, mark.offset) for entry in report.entries for mark in entry.marks} | set(report.refused)
    report.marked_by_others = [letter.origin for letter in letters if letter.origin not in known]


def ledger_ends(pipeline: Pipeline, connection: Connection, letters: Sequence[Letter]) -> dict[int, int]:
    """The last stable offset of the ledger partitions of these letters."""
    return stable_ends(connection, pipeline.names().ledger, [partition for partition, _ in by_partition(letters)])
