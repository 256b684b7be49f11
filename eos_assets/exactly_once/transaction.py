"""The protocol of one transaction, for one source partition and slice.

    Step 1. New producer with the transactional id of the partition.
    Step 2. `init_transactions`: fences every older attempt and resolves what it left open.
    Step 3. Read the last committed ledger entry and the stable group offset. The ledger decides.
    Step 4. Compare with the plan: go on, already done, stale, or refuse.
    Step 5. Begin at the first record; produce outputs and dead letters; take their offsets from the delivery
            reports; produce the provenance map and the ledger entry; send the source offset; commit.
    Step 6. Prove it: the stable group offset must be at least the new one.

`docs/exactly-once.md` has the same steps, with what happens to the data if we die at each of them.
"""

import time
from collections.abc import Callable

from eos_assets.errors import Code
from eos_assets.exactly_once.job import Job, OffsetRange
from eos_assets.exactly_once.ledger import Genesis, LedgerEntry
from eos_assets.exactly_once.marks import marks_of
from eos_assets.exactly_once.resume import Decision, GoOn, OffsetsMoved, StalePlan, decide
from eos_assets.exactly_once.slice import Slice
from eos_assets.exactly_once.source_reader import SourceReader
from eos_assets.exactly_once.verdicts import Abortable, Fatal, Fenced, step, watchdog
from eos_assets.kafka.denied import Denied
from eos_assets.kafka.producer import Producer

INIT_SECONDS = 60.0
#: Somebody else's open transaction in a shared sink may hold a partition back for longer.
SETTLE_SECONDS = 0.1
#: After these the producer may do nothing but close.
NOT_ABORTED = (Code.FENCED, Code.TRANSACTION_TIMED_OUT, Code.COMMIT_UNKNOWN)


class Transaction:
    """One transaction from `open` to `commit`, `abort` or `close`. It is used once: each one gets a fresh producer,
    because without transaction protocol v2 a delayed end of an older transaction could hit a later one of the
    same epoch, and a new `init_transactions` bumps the epoch."""

    def __init__(self, job: Job, planned: OffsetRange, reader: SourceReader, task_attempt: int) -> None:
        self.job = job
        self.planned = planned
        self.reader = reader
        self.task_attempt = task_attempt
        self.opened = False
        #: A producer that was made and connected ahead of time. It has not begun step 2.
        self.spare: Producer | None = None
        self.patience = job.transaction_timeout_ms / 1000
        self.new_ledger = False
        self.began_at = 0.0

    def open(self) -> Decision:
        """Steps 1 to 4."""
        partition = self.planned.partition
        self.reach("before_init")
        # Step 1.
        self.producer = new_producer(self.job, partition) if self.spare is None else self.spare
        self.opened = True
        # Step 2.
        with watchdog(2 * INIT_SECONDS, "init_transactions"):
            step(lambda: self.producer.init_transactions(INIT_SECONDS), "init_transactions", INIT_SECONDS)
        self.reach("after_init")
        # Step 3.
        tail = self.reader.ledger_tail(partition)
        self.reach("mid_read")
        group = self.reader.group_offset(partition)
        # Step 4.
        decision = self.compare(tail, group)
        return self.compare_again(decision) if isinstance(decision, OffsetsMoved) else decision

    def compare(self, tail: Genesis | LedgerEntry | None, group: int | None) -> Decision:
        """Step 4: what is committed, against the plan."""
        partition = self.planned.partition
        self.new_ledger = tail is None
        committed = None if tail is None else tail.next if isinstance(tail, LedgerEntry) else tail.start
        decision = decide(
            ledger=committed,
            group=group,
            genesis=self.job.geneses.get(partition, self.planned.start),
            start=self.planned.start,
            end=self.planned.end,
            exact=self.job.stateful,
        )
        if self.job.stateful and isinstance(decision, GoOn):
            loaded, now = self.job.marks[partition], marks_of(tail, self.job.changelogs)
            if loaded != now:
                return StalePlan(
                    committed or 0, f"the state was loaded at {loaded}, but {now} is committed: plan again"
                )
        return decision

    def compare_again(self, decision: Decision) -> Decision:
        """Ledger and group offset differ, too, if a newer attempt committed between the two reads. They are really
        apart only if they still say the same after a moment at which no transaction was open in the ledger."""
        partition, deadline = self.planned.partition, time.monotonic() + self.patience
        while time.monotonic() < deadline:
            settled = self.reader.ledger_is_settled(partition)
            tail = self.reader.ledger_tail(partition)
            before, decision = decision, self.compare(tail, self.reader.group_offset(partition))
            if not isinstance(decision, OffsetsMoved) or (settled and decision == before):
                break
        return decision

    def begin(self, upto: int | None = None) -> None:
        """The first part of step 5, at the first record to write and not before. `upto` is for the weaker modes."""
        if not self.began_at:
            self.producer.begin_transaction()
            self.began_at = time.monotonic()

    def commit(self, written: Slice, next_offset: int) -> LedgerEntry:
        """The rest of step 5, and step 6."""
        self.begin()
        partition, names = self.planned.partition, self.job.names
        entry = written.close(next_offset, self.task_attempt, genesis=self.new_ledger)
        self.reach("after_offsets")
        with watchdog(2 * self.patience + 10, "the end of the transaction"):
            offset = (names.source, partition, next_offset, names.group)
            step(
                lambda: self.producer.send_offset(*offset, self.patience), "send_offsets_to_transaction", self.patience
            )
            written.delivery.flush()
            self.reach("before_commit")
            at = (partition, written.start, self.job.run_attempt, self.task_attempt)
            self.job.failures.fail_transaction(*at)
            step(lambda: self.producer.commit_transaction(self.patience), "commit_transaction", self.patience)
        self.reach("after_commit")
        self.job.failures.fail_committed(*at)
        # Step 6.
        proven = self.reader.group_offset(partition)
        if proven is None or proven < next_offset:
            raise Fatal(f"committed {next_offset} of partition {partition}, but the stable group offset is {proven}")
        return entry

    def settle(self) -> None:
        """Waits a moment until the commit has reached every partition, which is after its answer. If the next
        `init_transactions` met it half way, librdkafka would wait for half a second before it asks again."""
        deadline = time.monotonic() + SETTLE_SECONDS
        for (topic, partition), written in self.producer.delivered.items():
            while time.monotonic() < deadline:
                if self.reader.is_stable(topic, partition, written[-1][-1], SETTLE_SECONDS):
                    break
                time.sleep(0.001)

    def abandon(self, failure: BaseException) -> None:
        """After a failure: an abortable transaction is aborted, a fenced or broken producer is only closed. What is
        left open is aborted by the next `init_transactions`, or by the broker after the transaction timeout."""
        if not self.began_at or getattr(failure, "code", None) in NOT_ABORTED:
            return
        with watchdog(self.patience + 10, "abort_transaction"):
            attempt(lambda: step(lambda: self.producer.abort_transaction(10), "abort_transaction", 10))

    def close(self) -> None:
        if self.opened:
            self.producer.close()
        elif self.spare is not None:
            self.spare.close()

    def timed_out(self) -> bool:
        """Whether the broker may have aborted us for being slow: the error is the same as for being fenced, only
        the clock tells them apart."""
        return self.open_for() > self.patience

    def open_for(self) -> float:
        """Seconds since it began; 0 before."""
        return time.monotonic() - self.began_at if self.began_at else 0.0

    def reach(self, failpoint: str) -> None:
        self.job.failures.reach(failpoint, self.planned.partition, self.job.run_attempt, self.task_attempt)


def new_producer(job: Job, partition: int) -> Producer:
    """A connected producer with the transactional id of the partition; it fences nobody yet."""
    producer = Producer(
        {
            **job.kafka,
            "batch.size": job.batch_bytes,
            "transactional.id": job.names.transactional_id(partition),
            "transaction.timeout.ms": job.transaction_timeout_ms,
            "message.timeout.ms": job.transaction_timeout_ms,
        }
    )
    # A connection that is not up yet makes init_transactions wait for a timer of half a second.
    producer.connect(job.names.ledger, partition, INIT_SECONDS)
    return producer


def attempt(call: Callable[[], object]) -> None:
    """Best effort: if it fails, the next attempt does it."""
    try:
        call()
    except (Abortable, Fatal, Fenced, Denied):
        return
