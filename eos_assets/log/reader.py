"""Reads the ledger, the group offset and single source records, with one read_committed consumer."""

from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from eos_assets.deadlines import Deadline
from eos_assets.declare.names import Names
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.reader import ASSIGNED_CONSUMER, read_last_record, read_last_records, read_range, watermarks
from eos_assets.kafka.retries import is_transient, retry_transient
from eos_assets.log import ledger, provenance
from eos_assets.log.ledger import Amendment, Genesis, LedgerEntry
from eos_assets.log.provenance import ProvenanceMap

TIMEOUT_SECONDS = 30
POLL_SECONDS = 0.2
#: How long the coordinator may take, when the stable offset has not arrived in time.
PENDING_SECONDS = 5.0
#: Up to this distance, reading the records in between is faster than seeking.
NEARBY_OFFSETS = 1000
#: A whole ledger is read in ranges of this size, so that memory stays flat.
LEDGER_OFFSETS = 10_000


class TransactionHangs(TaskError):
    """A transaction with the group offset of a partition is open, although `init_transactions` has resolved all of this
    partition's producer. Nothing may be written before it is known whether that offset counts."""

    def __init__(self, source: str, partition: int) -> None:
        super().__init__(
            Code.TRANSACTION_HANGS,
            f"the group offset of {source}/{partition} belongs to a transaction that is still open, although the "
            "coordinator has ended those of this partition: find it with `kafka-transactions.sh find-hanging`, abort "
            "it, and run again. Nothing was written",
        )


class CommittedReader:
    """Reads what is committed in the topics of one pipeline. Its consumer is assigned partitions and joins no group."""

    def __init__(self, kafka: dict[str, Any], names: Names) -> None:
        self.names = names
        #: Whether a broker has answered before.
        self.connected = False
        self.config = {
            **kafka,
            **ASSIGNED_CONSUMER,
            "group.id": names.group,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 1,
            # Right after a commit the group offset is unstable for some milliseconds.
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 10,
        }
        self.consumer = Consumer(self.config)

    def close(self) -> None:
        self.consumer.close()

    def watermarks(self, topic: str, partition: int, seconds: float = TIMEOUT_SECONDS) -> tuple[int, int]:
        low, end = watermarks(self.consumer, topic, partition, seconds, new=not self.connected)
        self.connected = True
        return low, end

    def ledger_tail(self, partition: int) -> Genesis | LedgerEntry | None:
        """The last committed entry of a ledger partition, before amendments, which do not move the position. Its end is
        the last stable offset, and after `init_transactions` this pipeline has no open transaction before it."""
        low, end = self.watermarks(self.names.ledger, partition)
        count, messages = 0, list[Message]()
        while len(messages) >= count:
            count = max(1, 8 * count)
            messages = read_last_records(self.consumer, self.names.ledger, partition, end, count, low)
            self.consumer.unassign()  # otherwise it keeps fetching, a thousand times a second
            for message in reversed(messages):
                if not isinstance(entry := ledger.read(message), Amendment):
                    return entry
        return None

    def ends_with_amendment(self, partition: int, start: int) -> bool:
        """Whether the last entry of a ledger partition is an amendment, at this offset or a later one."""
        low, end = self.watermarks(self.names.ledger, partition)
        last = read_last_record(self.consumer, self.names.ledger, partition, end, low)
        return last is not None and ledger.number_of(last) > 0 and (last.offset() or 0) >= start

    def amendments(self, partition: int) -> Iterator[Message]:
        """The messages of a ledger partition that hold an amendment. No other one is decoded."""
        low, end = self.watermarks(self.names.ledger, partition)
        for start in range(low, end, LEDGER_OFFSETS):
            messages = read_range(self.consumer, self.names.ledger, partition, start, min(end, start + LEDGER_OFFSETS))
            yield from filter(ledger.number_of, messages)
        self.consumer.unassign()

    def repairs(self, partition: int, start: int) -> list[Amendment]:
        """The committed amendments of a source partition from this offset of its ledger on."""
        entries = map(ledger.read, self._committed(self.names.ledger, partition, start))
        return [entry for entry in entries if isinstance(entry, Amendment)]

    def repair_maps(self, partition: int, start: int) -> list[ProvenanceMap]:
        """The maps of amendments from this offset of the provenance topic on."""
        maps = map(provenance.read, self._committed(self.names.provenance, partition, start))
        return [one for one in maps if one.of_repair]

    def _committed(self, topic: str, partition: int, start: int) -> list[Message]:
        low, end = self.watermarks(topic, partition)
        messages = read_range(self.consumer, topic, partition, max(low, start), end) if start < end else []
        self.consumer.unassign()
        return messages

    def ledger_is_settled(self, partition: int) -> bool:
        """Whether no transaction is open in a ledger partition, not even one of another producer."""
        uncommitted = Consumer({**self.config, "isolation.level": "read_uncommitted"})
        try:
            _, high = watermarks(uncommitted, self.names.ledger, partition, new=True)
        finally:
            uncommitted.close()
        return self.is_stable(self.names.ledger, partition, high - 1)

    def genesis(self, partition: int) -> Genesis | None:
        """The first entry of a ledger partition, which must be its genesis."""
        low, end = self.watermarks(self.names.ledger, partition)
        messages = read_range(self.consumer, self.names.ledger, partition, low, end, limit=1) if low < end else []
        first = ledger.read(messages[0]) if messages else None
        return first if isinstance(first, Genesis) else None

    def group_offset(self, partition: int, seconds: float = TIMEOUT_SECONDS) -> int | None:
        """The stable group offset. A read_committed consumer waits while a transaction that changes it is open."""
        source = TopicPartition(self.names.source, partition)
        try:
            return committed_offset(self.consumer, source, seconds)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._TIMED_OUT or not self._coordinator_answers(source):
                raise
            try:  # it may have answered only now
                return committed_offset(self.consumer, source, PENDING_SECONDS)
            except KafkaException:
                raise TransactionHangs(self.names.source, partition) from failure

    def _coordinator_answers(self, source: TopicPartition) -> bool:
        """Whether the coordinator of the group returns an offset that need not be stable."""
        uncommitted = Consumer({**self.config, "isolation.level": "read_uncommitted"})
        try:
            committed_offset(uncommitted, source, PENDING_SECONDS)
        except KafkaException:
            return False
        finally:
            uncommitted.close()
        return True

    def is_stable(self, topic: str, partition: int, offset: int, seconds: float = TIMEOUT_SECONDS) -> bool:
        """Whether no transaction is open at or before this offset. False also if no broker answers in time."""
        try:
            return self.watermarks(topic, partition, seconds)[1] > offset
        except KafkaException as failure:
            if is_transient(failure.args[0]):
                return False
            raise

    def first_visible(self, partition: int, start: int, end: int) -> int | None:
        """The offset of the first visible record in [start, end), or None if there is none."""
        if start >= end:
            return None
        messages = read_range(self.consumer, self.names.source, partition, start, end, limit=1)
        return messages[0].offset() if messages else None

    def fetch(self, partition: int, offsets: list[int]) -> Iterator[Message]:
        """The source records at these offsets, which increase. Seeks only over long distances."""
        position: int | None = None
        for offset in offsets:
            if position is None or not position <= offset < position + NEARBY_OFFSETS:
                self.consumer.assign([TopicPartition(self.names.source, partition, offset)])
            yield self._read_forward(partition, offset)
            position = offset + 1

    def _read_forward(self, partition: int, wanted: int) -> Message:
        """Read forward to the record at this offset."""
        deadline = Deadline(TIMEOUT_SECONDS)
        while not deadline.passed:
            message = self.consumer.poll(POLL_SECONDS)
            if message is None or message.error():
                continue
            deadline.restart()
            offset = message.offset()
            assert offset is not None
            if offset == wanted:
                return message
            if offset > wanted:
                raise TaskError(
                    Code.SOURCE_TRUNCATED, f"offset {wanted} of {self.names.source}/{partition} no longer exists"
                )
        raise TaskError(
            Code.TOPIC_UNREADABLE, f"offset {wanted} of {self.names.source}/{partition} could not be read again"
        )


def committed_offset(consumer: Consumer, source: TopicPartition, seconds: float) -> int | None:
    """The group offset of a partition, None if there is none."""
    deadline = Deadline(seconds)
    (committed,) = retry_transient(lambda: consumer.committed([source], deadline.remaining), seconds)
    if committed.error:
        raise KafkaException(committed.error)
    return committed.offset if committed.offset >= 0 else None
