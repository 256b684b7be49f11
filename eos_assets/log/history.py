"""What happened to a pipeline, by its ledger: one row for each run, repair, replay or discard that was committed."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import DISCARDED, Amendment, LedgerEntry, LetterEntry, Repair


@dataclass
class RunHistory:
    """What one run committed, or one amendment."""

    #: `run`, `repair`, `replay` or `discard`.
    kind: str
    run: str
    #: Source partition → where it began, and the position after its last commit; else the range of the source records
    #: that it concerned.
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    transactions: int = 0
    records_in: int = 0
    records_out: int = 0
    skipped: int = 0
    dead: int = 0
    bytes_out: int = 0
    #: The highest attempts among its commits: of the run, and of a task within it. Both begin at 1.
    run_attempt: int = 1
    task_attempt: int = 1
    code_versions: list[str] = field(default_factory=list)
    began_ms: int = 0
    ended_ms: int = 0

    def add(self, entry: LedgerEntry | Amendment) -> None:
        """Add a transaction. Those of one partition come in their order."""
        start, end = (entry.start, entry.next) if isinstance(entry, LedgerEntry) else (entry.first, entry.last + 1)
        start_before, end_before = self.ranges.get(entry.partition, (start, end))
        self.ranges[entry.partition] = (min(start, start_before), max(end, end_before))
        self.transactions += 1
        self.records_in += len(entry.marks) if isinstance(entry, LetterEntry) else entry.records_in
        self.records_out += entry.records_out
        self.skipped += entry.skipped
        self.dead += 0 if isinstance(entry, LetterEntry) else entry.dead
        self.bytes_out += entry.bytes_out
        self.run_attempt = max(self.run_attempt, entry.run_attempt)
        self.task_attempt = max(self.task_attempt, entry.task_attempt + 1)
        if entry.code_version not in self.code_versions:
            self.code_versions.append(entry.code_version)
        self.began_ms = min(self.began_ms or entry.began_ms, entry.began_ms)
        self.ended_ms = max(self.ended_ms, entry.ended_ms)


def read_history(connection: Connection, topic: str, partitions: Iterable[int]) -> list[RunHistory]:
    """The runs of a ledger, in the order in which they ended."""
    runs: dict[tuple[str, str], RunHistory] = {}
    for message in read_partitions(connection, {(topic, partition): 0 for partition in partitions}):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry | Amendment):
            run = runs.setdefault((entry.run, kind_of(entry)), RunHistory(kind_of(entry), entry.run))
            run.add(entry)
    return sorted(runs.values(), key=lambda run: (run.ended_ms, run.run))


def kind_of(entry: LedgerEntry | Amendment) -> str:
    if isinstance(entry, LetterEntry):
        return "discard" if all(mark.outcome == DISCARDED for mark in entry.marks) else "replay"
    return "repair" if isinstance(entry, Repair) else "run"
