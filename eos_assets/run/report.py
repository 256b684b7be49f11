"""The report of a run over all its attempts, and what it has committed according to the ledger."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from eos_assets.deadlines import poll_until
from eos_assets.declare.modes import Mode
from eos_assets.errors import MEANINGS, Code, Reaction
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry, short_run_id, utc_time
from eos_assets.sink.job import Outcome

#: How long the end of a transaction may take to reach the ledger after the broker has acknowledged its commit.
LEDGER_SECONDS = 10.0
POLL_SECONDS = 0.005

#: The offset of an entry in its ledger partition, and the entry.
LocatedEntry = tuple[int, LedgerEntry]


@dataclass
class RunReport:
    """What a run did. What it committed is read from the ledger, so it is true also where an attempt died."""

    run: str
    pipeline: str
    mode: Mode
    outcomes: list[Outcome] = field(default_factory=list)
    entries: list[LedgerEntry] = field(default_factory=list)
    #: Source partition → the offset of the last of these entries in the ledger topic.
    ledger_offsets: dict[int, int] = field(default_factory=dict)
    #: Source partition → its last ledger entry before the run; without those that had none.
    previous: dict[int, LedgerEntry] = field(default_factory=dict)
    #: Source partition → the range that the run planned to write, without empty ones.
    planned: dict[int, OffsetRange] = field(default_factory=dict)
    attempts: int = 0
    failures: list[str] = field(default_factory=list)
    complete: bool = False
    #: Source partition without new records → which open transactions of other producers hold it back, if any do.
    held_back: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        """One sentence: what the run committed or, without new records, which run had committed everything."""
        if not self.planned:
            return f"{self.pipeline}: {self.nothing_new()}"
        written = sum(entry.records_out for entry in self.entries)
        read = sum(entry.records_in for entry in self.entries)
        ending = "complete" if self.complete else f"gave up at attempt {self.attempts}"
        return (
            f"{self.pipeline}: {ending}; {read:,} records in, {written:,} out, in {len(self.entries):,} transaction(s) "
            f"of run {short_run_id(self.run)}"
        )

    @property
    def last_entries(self) -> dict[int, LedgerEntry]:
        """Source partition → its last ledger entry, from this run or an earlier one."""
        return self.previous | {entry.partition: entry for entry in self.entries}

    @property
    def refused(self) -> bool:
        """Whether a partition was refused for a reason that running again does not remove."""
        return any(outcome.reaction is Reaction.STOP for outcome in self.outcomes)

    def nothing_new(self) -> str:
        """Up to where everything was committed before this run, by which runs and when, and what holds back more."""
        last = sorted(self.previous.values(), key=lambda entry: (entry.run, entry.partition))
        commits = [describe_commits(list(entries)) for _, entries in groupby(last, key=lambda entry: entry.run)]
        if not commits:
            return "; ".join(["nothing new", "nothing was committed before", *self.held_back.values()])
        return "; ".join(["nothing new", f"everything up to {'; '.join(commits)}", *self.held_back.values()])

    def summary(self) -> list[Outcome]:
        """One row per partition, over all attempts."""
        partitions = {*self.planned, *(o.partition for o in self.outcomes), *(e.partition for e in self.entries)}
        return [self._partition(p) for p in sorted(partitions)]

    def _partition(self, partition: int) -> Outcome:
        entries = [e for e in self.entries if e.partition == partition]
        rows = [o for o in self.outcomes if o.partition == partition]
        last = rows[-1] if rows else None
        planned = self.planned.get(partition)
        start = last.start if last else planned.start if planned else 0
        position = entries[-1].next if entries else last.next if last else start
        code = Code(last.code) if last else Code.ALREADY_DONE
        if MEANINGS[code].reaction is Reaction.DONE:
            incomplete = planned is not None and position < planned.end and not self.complete
            code = Code.GAVE_UP if incomplete else Code.COMMITTED if entries else code
        return Outcome.of_entries(
            partition,
            code,
            entries,
            start=start,
            position=position,
            commit_ms=sum(o.commit_ms for o in rows),
            task_attempt=max((e.task_attempt for e in entries), default=0),
            reason=last.reason if last else "",
        )


def describe_commits(entries: list[LedgerEntry]) -> str:
    """The last commits of one run: up to where in the source, and when the last one ended."""
    ends = [f"{entries[0].topic if number == 0 else ''}/{e.partition}@{e.next}" for number, e in enumerate(entries)]
    ended = max(entry.ended_ms for entry in entries)
    return f"{', '.join(ends)} was committed by run {short_run_id(entries[0].run)} at {utc_time(ended)}"


def await_entries(
    connection: Connection, topic: str, starts: dict[int, int], run: str, committed: dict[int, int]
) -> list[LocatedEntry]:
    """The entries of a run, once they cover what it has committed. The end of a transaction reaches the partitions of
    the ledger some time after its commit.

    Args:
        connection: the cluster.
        topic: the ledger.
        starts: where to read each of its partitions from.
        run: the id of the run.
        committed: source partition → the position that the run has committed.
    """
    entries: list[LocatedEntry] = []

    def complete() -> bool:
        entries[:] = read_entries(connection, topic, starts, run)
        reached = {entry.partition: entry.next for _, entry in entries}
        return all(reached.get(p, -1) >= end for p, end in committed.items())

    poll_until(complete, LEDGER_SECONDS, POLL_SECONDS)
    return sorted(entries, key=lambda located: (located[1].partition, located[1].start))


def read_entries(connection: Connection, topic: str, starts: dict[int, int], run: str) -> Iterator[LocatedEntry]:
    for message in read_partitions(connection, {(topic, p): start for p, start in starts.items()}):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry) and entry.run == run:
            yield message.offset() or 0, entry
