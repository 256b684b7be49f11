"""What a plain consumer observes in a sink of squares: the evidence of the experiment.

It uses nothing that the sink writes about itself: no ledger, no provenance map, no digest. The sink and the squares of
the source's integers are compared as multisets, with one counter of four bytes for each integer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from eos_assets.deadlines import Deadline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection

BATCH = 5_000
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class SinkObservation:
    """The records that a reader of committed data sees, compared with the squares of the integers below `expected`."""

    expected: int
    visible: int
    #: Second and further copies.
    duplicates: int
    #: Missing below the committed offsets: no later run reads their source records again.
    lost: int
    #: Missing at or past the committed offsets: the next run delivers them.
    undelivered: int
    #: Not the square of their key, or of an integer that the source does not hold.
    wrong: int
    #: Records whose integer is not greater than that of the record before them in their partition.
    out_of_order: int
    #: Records that only a reader of uncommitted data sees: aborted, or in an open transaction.
    aborted: int

    @property
    def exact(self) -> bool:
        """No record is lost, duplicated, wrong or out of order; some may be undelivered."""
        return not (self.duplicates or self.lost or self.wrong or self.out_of_order)


@dataclass
class SquareCounter:
    """Counts the copies of each square, record by record."""

    counts: npt.NDArray[np.uint32]
    visible: int = 0
    wrong: int = 0
    out_of_order: int = 0

    def add(self, key: bytes | None, value: bytes | None, previous: int) -> int:
        """Count a record that follows the integer `previous` in its partition, and return the integer of the record."""
        self.visible += 1
        root = isqrt(int(value)) if value and value.isdigit() else -1
        if not 0 <= root < len(self.counts) or value != b"%d" % root**2 or key != b"%d" % root:
            self.wrong += 1
            return previous
        self.counts[root] += 1
        self.out_of_order += root <= previous
        return root

    @property
    def duplicates(self) -> int:
        return int(self.counts.sum(dtype=np.int64) - np.count_nonzero(self.counts))


def observe_sink(connection: Connection, source: str, sink: str, group: str, expected: int) -> SinkObservation:
    """Read the sink once committed and once uncommitted and, if records are missing, the source once."""
    counter = SquareCounter(np.zeros(expected, np.uint32))
    previous: dict[int, int] = {}
    for message in read_topic(connection, sink, "read_committed"):
        partition = message.partition() or 0
        previous[partition] = counter.add(message.key(), message.value(), previous.get(partition, -1))
    uncommitted = sum(1 for _ in read_topic(connection, sink, "read_uncommitted"))
    missing = int(np.count_nonzero(counter.counts == 0))
    undelivered = count_undelivered(connection, source, group, counter) if missing else 0
    return SinkObservation(
        expected=expected,
        visible=counter.visible,
        duplicates=counter.duplicates,
        lost=missing - undelivered,
        undelivered=undelivered,
        wrong=counter.wrong,
        out_of_order=counter.out_of_order,
        aborted=uncommitted - counter.visible,
    )


def count_undelivered(connection: Connection, source: str, group: str, counter: SquareCounter) -> int:
    """Count the source records at or past the committed offsets whose square is missing."""
    committed = committed_offsets(connection, source, group)
    return sum(
        int(counter.counts[int(message.value() or b"")] == 0)
        for message in read_topic(connection, source, "read_committed")
        if (message.offset() or 0) >= committed[message.partition() or 0]
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


def read_topic(connection: Connection, topic: str, isolation: str) -> Iterator[Message]:
    """Read every record that this isolation level shows, each partition in order."""
    consumer = plain_consumer(connection, "eos-experiment", isolation)
    try:
        reading = set(connection.partitions(topic))
        consumer.assign([TopicPartition(topic, p, 0) for p in reading])
        deadline = Deadline(PATIENCE_SECONDS)
        while reading:
            messages = consumer.consume(BATCH, timeout=POLL_SECONDS)  # waits that long for a full batch
            if messages:
                deadline.restart()
            elif deadline.passed:
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


def committed_offsets(connection: Connection, source: str, group: str) -> dict[int, int]:
    """The committed offsets of the group, 0 where it has none.

    A killed attempt may have left an open transaction with further offsets. A read_uncommitted consumer skips those; a
    read_committed one waits for them.
    """
    consumer = plain_consumer(connection, group, "read_uncommitted")
    try:
        partitions = [TopicPartition(source, p) for p in connection.partitions(source)]
        committed = consumer.committed(partitions, timeout=PATIENCE_SECONDS)
        return {entry.partition: max(0, entry.offset) for entry in committed}
    finally:
        consumer.close()
