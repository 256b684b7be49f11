"""The two weaker deliveries, with the same interface as `Transaction`. They exist to be compared with it."""

from confluent_kafka import TopicPartition

from eos_assets.exactly_once.job import Job, OffsetRange
from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.resume import Decision, GoOn, decide
from eos_assets.exactly_once.slice import Slice
from eos_assets.exactly_once.source_reader import SourceReader
from eos_assets.kafka.producer import Producer


class Untransacted:
    """An idempotent producer and plain offset commits. Nothing makes outputs and offsets one. It is opened again for
    each slice, and keeps its producer: a new one waits for half a second until a broker has given it an id."""

    def __init__(self, job: Job, planned: OffsetRange, reader: SourceReader, task_attempt: int) -> None:
        self.job = job
        self.planned = planned
        self.reader = reader
        self.task_attempt = task_attempt
        self.opened = False
        self.begun = False
        #: The source offset that is committed so far: at most once, it is ahead of what is produced.
        self.committed = planned.start

    def open(self) -> Decision:
        self.reach("before_init")
        if not self.opened:
            self.producer = Producer({**self.job.kafka, "batch.size": self.job.batch_bytes, "enable.idempotence": True})
            self.opened = True
        self.producer.delivered.clear()
        self.begun = False
        self.reach("after_init")
        group = self.reader.group_offset(self.planned.partition)
        genesis = self.job.geneses.get(self.planned.partition, self.planned.start)
        decision = decide(ledger=group, group=group, genesis=genesis, start=self.planned.start, end=self.planned.end)
        if isinstance(decision, GoOn):
            self.committed = self.start = decision.position
        return decision

    def begin(self, upto: int | None = None) -> None:
        """What is produced from here on is visible at once. At most once, its offsets are committed before it."""
        if self.job.mode is Mode.AT_MOST_ONCE:
            if upto is not None and upto > self.committed:
                self.commit_offset(upto)  # before anything is produced: a crash from here on loses these records
            if not self.begun:
                self.reach("before_commit")
                self.job.failures.fail_transaction(*self.place())
        self.begun = True

    def place(self) -> tuple[int, int, int, int]:
        """What decides whether a failure strikes: the same as in a transaction."""
        return self.planned.partition, self.start, self.job.run_attempt, self.task_attempt

    def commit(self, written: Slice, next_offset: int) -> LedgerEntry:
        entry = written.close(next_offset, self.task_attempt, genesis=False)
        written.delivery.flush()
        if self.job.mode is Mode.AT_LEAST_ONCE:
            self.reach("after_offsets")
            self.reach("before_commit")
            self.job.failures.fail_transaction(*self.place())
        if next_offset > self.committed:  # after everything is produced: a crash before it doubles records
            self.commit_offset(next_offset)
        self.reach("after_commit")
        self.job.failures.fail_committed(*self.place())
        return entry

    def settle(self) -> None:
        """There is no end of a transaction to wait for."""

    def commit_offset(self, offset: int) -> None:
        at = TopicPartition(self.job.names.source, self.planned.partition, offset)
        self.reader.consumer.commit(offsets=[at], asynchronous=False)
        self.committed = offset

    def abandon(self, failure: BaseException) -> None:
        """What waits in the queue is thrown away; what was sent stays: nothing can take it back."""
        if self.opened:
            self.producer.purge()

    def close(self) -> None:
        if self.opened:
            self.producer.close()

    def timed_out(self) -> bool:
        return False

    def reach(self, failpoint: str) -> None:
        self.job.failures.reach(failpoint, self.planned.partition, self.job.run_attempt, self.task_attempt)
