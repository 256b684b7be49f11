"""One read_committed consumer of an attempt: ledger, group offset, and single source records."""

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from eos_assets.declare.names import Names
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.connection import ask, transient
from eos_assets.kafka.reader import last_record, records, watermarks
from eos_assets.log import ledger
from eos_assets.log.ledger import Genesis, LedgerEntry

PATIENCE_SECONDS = 30
#: Reading on over so many records is quicker than seeking.
NEARBY = 1000


class SourceReader:
    """Reads what is committed. It is assigned partitions, joins no group and commits nothing."""

    def __init__(self, kafka: dict[str, Any], names: Names) -> None:
        self.names = names
        #: Whether a broker has answered it before.
        self.connected = False
        self.config = {
            **kafka,
            "group.id": names.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 1,
            # Right after a commit the group offset is unstable for some milliseconds.
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 10,
        }
        self.consumer = Consumer(self.config)

    def close(self) -> None:
        self.consumer.close()

    def watermarks(self, topic: str, partition: int, patience: float = PATIENCE_SECONDS) -> tuple[int, int]:
        found = watermarks(self.consumer, topic, partition, patience, new=not self.connected)
        self.connected = True
        return found

    def ledger_tail(self, partition: int) -> Genesis | LedgerEntry | None:
        """The last committed entry of a ledger partition. With this isolation the high watermark is the last
        stable offset, and after `init_transactions` nothing of our own is open before it."""
        low, end = self.watermarks(self.names.ledger, partition)
        message = last_record(self.consumer, self.names.ledger, partition, end, low)
        self.consumer.unassign()  # it would go on asking for more, a thousand times a second
        return None if message is None else ledger.read(message)

    def ledger_is_settled(self, partition: int) -> bool:
        """Whether no transaction of anybody is open in a ledger partition."""
        uncommitted = Consumer({**self.config, "isolation.level": "read_uncommitted"})
        try:
            _, high = watermarks(uncommitted, self.names.ledger, partition, new=True)
        finally:
            uncommitted.close()
        return self.is_stable(self.names.ledger, partition, high - 1)

    def genesis(self, partition: int) -> Genesis | None:
        """The first entry of a ledger partition, which must be its genesis."""
        low, end = self.watermarks(self.names.ledger, partition)
        found = records(self.consumer, self.names.ledger, partition, low, end, limit=1) if low < end else []
        first = ledger.read(found[0]) if found else None
        return first if isinstance(first, Genesis) else None

    def group_offset(self, partition: int, patience: float = PATIENCE_SECONDS) -> int | None:
        """The stable group offset. A read_committed consumer waits while a transaction over it is open."""
        at = TopicPartition(self.names.source, partition)
        answer = ask(lambda: self.consumer.committed([at], timeout=patience), patience)[0]
        if answer.error:
            raise KafkaException(answer.error)
        return answer.offset if answer.offset >= 0 else None

    def is_stable(self, topic: str, partition: int, offset: int, patience: float = PATIENCE_SECONDS) -> bool:
        """Whether no open transaction lies at or before this offset; no, too, if nobody answers in time."""
        try:
            return self.watermarks(topic, partition, patience)[1] > offset
        except KafkaException as failure:
            if transient(failure.args[0]):
                return False
            raise

    def first_visible(self, partition: int, start: int, end: int) -> int | None:
        """The offset of the first visible record in [start, end), or None if there are only markers and the like."""
        if start >= end:
            return None
        found = records(self.consumer, self.names.source, partition, start, end, limit=1)
        return found[0].offset() if found else None

    def fetch(self, partition: int, offsets: list[int]) -> Iterator[Message]:
        """The source records at these offsets, which rise: read forward where they lie close, else sought."""
        position: int | None = None
        for offset in offsets:
            if position is None or not position <= offset < position + NEARBY:
                self.consumer.assign([TopicPartition(self.names.source, partition, offset)])
            message = self.read_on(partition, offset)
            position = offset + 1
            yield message

    def read_on(self, partition: int, offset: int) -> Message:
        """Reads forward to the record at this offset."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            message = self.consumer.poll(0.2)
            if message is None or message.error():
                continue
            deadline = time.monotonic() + PATIENCE_SECONDS
            at = message.offset()
            assert at is not None
            if at == offset:
                return message
            if at > offset:
                raise TaskError(
                    Code.SOURCE_TRUNCATED, f"offset {offset} of {self.names.source}/{partition} is no longer there"
                )
        raise TaskError(
            Code.TOPIC_UNREADABLE, f"offset {offset} of {self.names.source}/{partition} could not be read again"
        )
