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
    """An idempotent producer and plain offset commits. Nothing makes outputs and offsets one."""

    def __init__(self, job: Job, planned: OffsetRange, reader: SourceReader, task_attempt: int) -> None:
        self.job = job
        self.planned = planned
        self.reader = reader
        self.task_attempt = task_attempt
        self.opened = False
        self.begun = False

    def open(self) -> Decision:
        self.reach("before_init")
        self.producer = Producer({**self.job.kafka, "enable.idempotence": True})
        self.opened = True
        self.reach("after_init")
        group = self.reader.group_offset(self.planned.partition)
        genesis = self.job.geneses.get(self.planned.partition, self.planned.start)
        decision = decide(ledger=group, group=group, genesis=genesis, start=self.planned.start, end=self.planned.end)
        if self.job.mode is Mode.AT_MOST_ONCE and isinstance(decision, GoOn):
            self.commit_offset(self.planned.end)  # before anything is produced: a crash from here on loses records
        return decision

    def begin(self) -> None:
        """What is produced from here on is visible at once. At most once, the offsets are committed by now."""
        if self.job.mode is Mode.AT_MOST_ONCE and not self.begun:
            self.reach("before_commit")
            self.fail()
        self.begun = True

    def fail(self) -> None:
        self.job.failures.fail_transaction(
            self.planned.partition, self.planned.start, self.job.run_attempt, self.task_attempt
        )

    def commit(self, written: Slice, next_offset: int) -> LedgerEntry:
        entry = written.close(next_offset, self.task_attempt, genesis=False)
        written.flush()
        if self.job.mode is Mode.AT_LEAST_ONCE:
            self.reach("after_offsets")
            self.reach("before_commit")
            self.fail()
            self.commit_offset(next_offset)  # after everything is produced: a crash before it doubles records
        self.reach("after_commit")
        return entry

    def commit_offset(self, offset: int) -> None:
        at = TopicPartition(self.job.names.source, self.planned.partition, offset)
        self.reader.consumer.commit(offsets=[at], asynchronous=False)

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
