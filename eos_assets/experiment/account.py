"""A source of integers and a sink of squares in, an account of the difference out, by a plain consumer.

It uses nothing that the sink writes about itself: no ledger, no provenance, no digest. Two multisets are compared, one
counter of four bytes for each integer; records are looked at one batch at a time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection

BATCH = 5_000
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Account:
    """What a reader of committed data finds in the sink, against the squares of the integers below `expected`."""

    expected: int
    visible: int
    #: Second and further copies.
    duplicates: int
    #: Missing, although the committed offsets say that they were done: nobody will ever bring them.
    lost: int
    #: Missing, and behind the committed offsets: the next run will bring them.
    undelivered: int
    #: No square of their key, or of no integer of the source.
    wrong: int
    #: Records that are not behind the one before them in their partition.
    out_of_order: int
    #: What a reader of uncommitted data sees beyond that: aborted, or still open.
    aborted: int

    @property
    def exact(self) -> bool:
        """Neither lost nor doubled, nor invented, nor reordered: what is visible is right, as far as it goes."""
        return not (self.duplicates or self.lost or self.wrong or self.out_of_order)


@dataclass
class SquareCount:
    """Counts the copies of each square, record by record."""

    counts: npt.NDArray[np.uint32]
    visible: int = 0
    wrong: int = 0
    out_of_order: int = 0

    def take(self, key: bytes | None, value: bytes | None, last: int) -> int:
        """Notes one record of a partition in which the integer `last` came before; returns its integer."""
        self.visible += 1
        root = isqrt(int(value)) if value and value.isdigit() else -1
        if not 0 <= root < len(self.counts) or value != b"%d" % root**2 or key != b"%d" % root:
            self.wrong += 1
            return last
        self.counts[root] += 1
        self.out_of_order += root <= last
        return root

    @property
    def duplicates(self) -> int:
        return int(self.counts.sum(dtype=np.int64) - np.count_nonzero(self.counts))


def account(connection: Connection, source: str, sink: str, group: str, expected: int) -> Account:
    """Reads the sink once committed and once uncommitted, and the source once."""
    tally = SquareCount(np.zeros(expected, np.uint32))
    last: dict[int, int] = {}
    for message in everything(connection, sink, "read_committed"):
        partition = message.partition() or 0
        last[partition] = tally.take(message.key(), message.value(), last.get(partition, -1))
    uncommitted = sum(1 for _ in everything(connection, sink, "read_uncommitted"))
    missing = int(np.count_nonzero(tally.counts == 0))
    undelivered = 0
    if missing:
        committed = positions(connection, source, group)
        for message in everything(connection, source, "read_committed"):
            behind = (message.offset() or 0) >= committed[message.partition() or 0]
            undelivered += behind and tally.counts[int(message.value() or b"")] == 0
    return Account(
        expected=expected,
        visible=tally.visible,
        duplicates=tally.duplicates,
        lost=missing - int(undelivered),
        undelivered=int(undelivered),
        wrong=tally.wrong,
        out_of_order=tally.out_of_order,
        aborted=uncommitted - tally.visible,
    )


def plain_consumer(connection: Connection, group: str, isolation: str) -> Consumer:
    return Consumer(
        connection.config(
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
            enable_partition_eof=True,
            fetch_wait_max_ms=10,
        )
    )


def everything(connection: Connection, topic: str, isolation: str) -> Iterator[Message]:
    """Every record that a reader of this isolation sees, each partition in order."""
    consumer = plain_consumer(connection, "eos-experiment", isolation)
    try:
        reading = set(connection.partitions(topic))
        consumer.assign([TopicPartition(topic, p, 0) for p in reading])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while reading:
            messages = consumer.consume(BATCH, timeout=POLL_SECONDS)  # waits that long for a full batch
            if messages:
                deadline = time.monotonic() + PATIENCE_SECONDS
            elif time.monotonic() > deadline:
                raise EosError(f"{topic} could not be read to its end.", "Check the brokers with `eos doctor`.")
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    reading.discard(message.partition() or 0)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def positions(connection: Connection, source: str, group: str) -> dict[int, int]:
    """The committed offsets of the group, 0 where there is none. A killed attempt may have left further ones open:
    asking for uncommitted data skips those instead of waiting for them."""
    consumer = plain_consumer(connection, group, "read_uncommitted")
    try:
        wanted = [TopicPartition(source, p) for p in connection.partitions(source)]
        return {at.partition: max(0, at.offset) for at in consumer.committed(wanted, timeout=PATIENCE_SECONDS)}
    finally:
        consumer.close()
