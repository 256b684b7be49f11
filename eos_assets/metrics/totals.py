"""What the ledger of one source partition adds up to. Its size does not depend on the number of entries."""

from bisect import bisect_left
from dataclasses import dataclass, field

from eos_assets.log.ledger import Amendment, Genesis, LedgerEntry, Repair

#: The upper bounds of the histogram of transactions. One is committed at half of its timeout, which is 60 s by default.
BUCKET_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass
class LedgerTotals:
    """The sums over all entries, and the last one."""

    #: The start that the genesis declares; None before it is read.
    start: int | None = None
    last: LedgerEntry | None = None
    commits: int = 0
    repairs: int = 0
    records_in: int = 0
    records_out: int = 0
    skipped: int = 0
    repeats: int = 0
    dead: int = 0
    bytes_out: int = 0
    #: Failed tries of tasks, and failed jobs, that a commit of the same run followed.
    task_retries: int = 0
    job_retries: int = 0
    seconds: float = 0.0
    #: How many transactions took at most as long as each bucket and longer than the one before it; the last: longer.
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKET_SECONDS) + 1))

    @property
    def position(self) -> int | None:
        """The next source offset to process; None if there is no genesis yet."""
        return self.last.next if self.last else self.start

    def add(self, entry: Genesis | LedgerEntry | Amendment) -> None:
        """Add an entry. An amendment only adds what it wrote: its source records were counted before."""
        if isinstance(entry, Genesis):
            self.start = entry.start
            return
        self.records_out += entry.records_out
        self.skipped += entry.skipped
        self.bytes_out += entry.bytes_out
        if isinstance(entry, LedgerEntry):
            self._add_transaction(entry)
        elif isinstance(entry, Repair):
            self.repairs += 1
            self.dead += entry.dead

    def _add_transaction(self, entry: LedgerEntry) -> None:
        self._count_retries(entry)
        self.commits += 1
        self.records_in += entry.records_in
        self.dead += entry.dead
        self.repeats += entry.repeats
        seconds = max(0, entry.ended_ms - entry.began_ms) / 1000
        self.seconds += seconds
        self.buckets[bisect_left(BUCKET_SECONDS, seconds)] += 1
        self.last = entry

    def _count_retries(self, entry: LedgerEntry) -> None:
        """Several transactions of one attempt name the same attempt: only what it rises by counts."""
        same_run = self.last is not None and self.last.run == entry.run
        jobs = self.last.run_attempt if self.last and same_run else 1
        same_job = same_run and jobs == entry.run_attempt
        tasks = self.last.task_attempt if self.last and same_job else 0
        self.job_retries += max(0, entry.run_attempt - jobs)
        self.task_retries += max(0, entry.task_attempt - tasks)
