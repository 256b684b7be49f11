"""The protocol of one transaction, for one batch of one source partition.

    Step 1. Take a new producer with the transactional id of the partition.
    Step 2. `init_transactions`: fence every older attempt and resolve what it left open.
    Step 3. Read the last committed ledger entry and the stable group offset. The ledger decides.
    Step 4. Compare them with the plan: go on, already done, stale plan, or refuse.
    Step 5. Begin at the first record; produce outputs and dead letters; take their offsets from the delivery
            reports; produce the provenance map and the ledger entry; send the source offset; commit.
    Step 6. Prove the commit: the stable group offset must be at least the new one.

`docs/exactly-once.md` has the same steps, and what happens to the data if the worker dies at each of them.
"""

import time
from contextlib import suppress
from functools import partial

from eos_assets.deadlines import Deadline, poll_until
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.producer import Producer
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.reader import TransactionHangs
from eos_assets.sink.delivery import NothingToWrite
from eos_assets.sink.errors import Fatal, call_transactional, watchdog
from eos_assets.sink.job import Attempt
from eos_assets.sink.producer_pool import ProducerPool
from eos_assets.sink.resume import GoOn, OffsetsMoved, compare, compare_again
from eos_assets.sink.transaction_batch import TransactionBatch

INIT_SECONDS = 60.0
ABORT_SECONDS = 10.0
#: In a shared sink, an open transaction of another producer may hold back the last stable offset for longer.
SETTLE_SECONDS = 0.1
#: After these errors the producer may only be closed.
NOT_ABORTED = (Code.FENCED, Code.TRANSACTION_TIMED_OUT, Code.COMMIT_UNKNOWN)


class Transaction:
    """One transaction and its producer, from `open` to `commit` or `abandon`.

    Each transaction has its own producer: without transaction protocol v2, a delayed end of an older transaction could
    hit a later one of the same epoch, and only a new `init_transactions` bumps the epoch.
    """

    def __init__(self, attempt: Attempt, producer: Producer, position: int, *, new_ledger: bool) -> None:
        self.attempt = attempt
        self.producer = producer
        self.batch = TransactionBatch(attempt.job, attempt.partition, position, producer)
        self.new_ledger = new_ledger
        #: The clock when the transaction began; 0 if none is open.
        self.began_at = 0.0

    @classmethod
    def open(cls, attempt: Attempt, producers: ProducerPool) -> "Transaction | NothingToWrite":
        """Steps 1 to 4."""
        attempt.reach("before_init")
        # Step 1.
        producer = producers.take()
        try:
            # Step 2.
            with watchdog(2 * INIT_SECONDS, "init_transactions"):
                call_transactional(lambda: producer.init_transactions(INIT_SECONDS), "init_transactions", INIT_SECONDS)
            attempt.reach("after_init")
            # Step 3.
            tail = attempt.reader.ledger_tail(attempt.partition)
            attempt.reach("mid_read")
            group = attempt.reader.group_offset(attempt.partition)
            # Step 4.
            decision = compare(attempt, tail, group)
            if isinstance(decision, OffsetsMoved):
                tail, decision = compare_again(attempt, decision)
            if isinstance(decision, GoOn):
                return cls(attempt, producer, decision.position, new_ledger=tail is None)
        except BaseException:
            producer.close()
            raise
        producer.close()
        return decision

    def begin(self, next_offset: int) -> None:
        """The first part of step 5: at the first record to write, and not earlier."""
        if not self.began_at:
            self.producer.begin_transaction()
            self.began_at = time.monotonic()

    def commit(self, next_offset: int) -> LedgerEntry:
        """The rest of step 5, and step 6."""
        attempt, names, timeout = self.attempt, self.attempt.job.names, self.attempt.timeout
        self.begin(next_offset)
        entry = self.batch.complete(next_offset, attempt.task_attempt, genesis=self.new_ledger)
        attempt.reach("after_offsets", self.batch.start)
        with watchdog(2 * timeout + 10, "the end of the transaction"):
            offset = (names.source, attempt.partition, next_offset, names.group)
            call_transactional(
                lambda: self.producer.send_offset(*offset, timeout), "send_offsets_to_transaction", timeout
            )
            self.batch.buffer.flush()
            attempt.reach("before_commit", self.batch.start)
            call_transactional(lambda: self.producer.commit_transaction(timeout), "commit_transaction", timeout)
        self.began_at = 0.0
        attempt.reach("after_commit", self.batch.start)
        # Step 6.
        try:
            proven = attempt.reader.group_offset(attempt.partition)
        except TransactionHangs as pending:  # the next attempt learns whether the coordinator has ended it
            raise Fatal(f"partition {attempt.partition}: the commit of {next_offset} is not complete") from pending
        if proven is None or proven < next_offset:
            raise Fatal(f"partition {attempt.partition}: committed {next_offset}, but the group offset is {proven}")
        return entry

    def settle(self) -> None:
        """Wait until the commit has reached every partition, which is later than its response. An `init_transactions`
        before that is rejected, and librdkafka repeats it only after half a second."""
        deadline = Deadline(SETTLE_SECONDS)
        for (topic, partition), ranges in self.producer.delivered.items():
            if deadline.passed:
                return
            is_stable = partial(self.attempt.reader.is_stable, topic, partition, ranges[-1][-1], SETTLE_SECONDS)
            poll_until(is_stable, deadline.remaining, pause=0.001)

    def abandon(self, failure: BaseException) -> None:
        """After a failure, abort an abortable transaction; a fenced or unusable producer is only closed. What is left
        open is aborted by the next `init_transactions`, or by the broker after the transaction timeout."""
        if not self.began_at or getattr(failure, "code", None) in NOT_ABORTED:
            return
        with watchdog(self.attempt.timeout + 10, "abort_transaction"), suppress(TaskError):
            call_transactional(
                lambda: self.producer.abort_transaction(ABORT_SECONDS), "abort_transaction", ABORT_SECONDS
            )

    def close(self) -> None:
        self.producer.close()

    def seconds_open(self) -> float:
        return time.monotonic() - self.began_at if self.began_at else 0.0


class TransactionalDelivery:
    """Exactly once: each batch of a source partition is one transaction, with its own producer."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.producers = ProducerPool(attempt.job, attempt.partition)

    def open(self) -> Transaction | NothingToWrite:
        return Transaction.open(self.attempt, self.producers)

    def prepare_next(self) -> None:
        self.producers.prepare()

    def close(self) -> None:
        self.producers.close()
