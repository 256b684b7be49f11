"""The baseline deliveries, at least once and at most once, which are compared with the transactional one."""

from confluent_kafka import TopicPartition

from eos_assets.declare.modes import Mode
from eos_assets.kafka.producer import Producer
from eos_assets.log.ledger import LedgerEntry
from eos_assets.sink.delivery import NothingToWrite, OpenDelivery
from eos_assets.sink.job import Attempt
from eos_assets.sink.resume import GoOn, decide
from eos_assets.sink.transaction_batch import TransactionBatch


def delivery_of(mode: Mode) -> OpenDelivery | None:
    """The delivery of a mode; None for exactly once, which is what a run does by default."""
    return None if mode is Mode.EXACTLY_ONCE else BaselineDelivery


class BaselineDelivery:
    """An idempotent producer and plain offset commits: outputs and offsets are not atomic.

    All batches share the producer, because a new one waits for half a second until a broker has assigned its id.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.producer: Producer | None = None

    def open(self) -> "BaselineBatch | NothingToWrite":
        attempt, job = self.attempt, self.attempt.job
        attempt.reach("before_init")
        if self.producer is None:
            self.producer = Producer({**job.kafka, "batch.size": job.batch_bytes, "enable.idempotence": True})
        self.producer.delivered.clear()
        attempt.reach("after_init")
        group = attempt.reader.group_offset(attempt.partition)
        planned = attempt.planned
        genesis = job.geneses.get(attempt.partition, planned.start)
        decision = decide(ledger=group, group=group, genesis=genesis, start=planned.start, end=planned.end)
        if isinstance(decision, GoOn):
            return BaselineBatch(attempt, self.producer, decision.position)
        return decision

    def prepare_next(self) -> None:
        """Nothing to prepare: the producer is reused."""

    def close(self) -> None:
        if self.producer is not None:
            self.producer.close()


class BaselineBatch:
    """The records that are produced between two offset commits."""

    def __init__(self, attempt: Attempt, producer: Producer, position: int) -> None:
        self.attempt = attempt
        self.producer = producer
        self.batch = TransactionBatch(attempt.job, attempt.partition, position, producer)
        self.mode = attempt.job.names.mode
        #: The committed source offset. At most once, it is ahead of the records that are produced.
        self.committed = position
        self.started = False

    def begin(self, next_offset: int) -> None:
        """Commit the offsets first, at most once. Records that are produced from here on are visible immediately."""
        if self.mode is Mode.AT_MOST_ONCE:
            if next_offset > self.committed:
                self.commit_offset(next_offset)  # a crash from here on loses these records
            if not self.started:
                self.attempt.reach("before_commit", self.batch.start)
        self.started = True

    def commit(self, next_offset: int) -> LedgerEntry:
        entry = self.batch.complete(next_offset, self.attempt.task_attempt, genesis=False)
        self.batch.buffer.flush()
        if self.mode is Mode.AT_LEAST_ONCE:
            self.attempt.reach("after_offsets", self.batch.start)
            self.attempt.reach("before_commit", self.batch.start)
        if next_offset > self.committed:  # a crash before this commit doubles records
            self.commit_offset(next_offset)
        self.attempt.reach("after_commit", self.batch.start)
        return entry

    def commit_offset(self, offset: int) -> None:
        position = TopicPartition(self.attempt.job.names.source, self.attempt.partition, offset)
        self.attempt.reader.consumer.commit(offsets=[position], asynchronous=False)
        self.committed = offset

    def settle(self) -> None:
        """Nothing to wait for: no transaction ends."""

    def abandon(self, failure: BaseException) -> None:
        """Discard the records in the queue. Records that were sent stay visible."""
        self.producer.purge()

    def close(self) -> None:
        """Nothing to close: the delivery closes the producer."""

    def seconds_open(self) -> float:
        return 0.0
