"""Reads exact ranges of one partition as Arrow batches, past transaction markers and aborted records."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from eos_assets.deadlines import Deadline
from eos_assets.errors import Code, EosError
from eos_assets.kafka import _librdkafka as c
from eos_assets.kafka._librdkafka import library
from eos_assets.kafka.headers import headers_of
from eos_assets.kafka.message_memory import NO_TIMESTAMP, Fetched, copy_messages, headers_array, layout_is_known
from eos_assets.kafka.reader import ASSIGNED_CONSUMER, READER_GROUP, TIMEOUT_SECONDS, PartitionUnreadable
from eos_assets.kafka.retries import is_transient

#: The most records and bytes of one batch.
BATCH_ROWS = 20_000
BATCH_BYTES = 8 << 20
#: How long a fetch waits for more records. Near the end of a range it asks only for as many as may come.
FETCH_SECONDS = 0.005

SETTINGS = {
    **ASSIGNED_CONSUMER,
    "group.id": READER_GROUP,
    "check.crcs": True,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 1,  # by default a full queue stalls the reader for a second
    "max.partition.fetch.bytes": 1_000_000,  # each response costs CPU, and large ones cost more of it
    "queued.min.messages": BATCH_ROWS,
    "queued.max.messages.kbytes": 16 << 10,
}


@dataclass(frozen=True)
class PartitionRange:
    """The offsets [start, end) of one partition of a topic."""

    topic: str
    partition: int
    start: int
    end: int


class RangeTruncated(EosError):
    """Records of a range were deleted before they were read. The next plan refuses the range."""

    code = Code.TOPIC_UNREADABLE

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"Offset {offset} of {topic}/{partition} was deleted before it was read.",
            "Run again: the plan names what is missing.",
        )


class PartitionConsumer(Protocol):
    """A consumer that is assigned one partition."""

    def fetch(self, rows: int, seconds: float) -> Fetched:
        """At most this many records, with what arrives in this time."""

    def close(self) -> None: ...


def read_batches(
    config: dict[str, Any],
    wanted: PartitionRange,
    columns: Sequence[str] = (),
    *,
    isolation: str = "read_committed",
    rows: int = BATCH_ROWS,
    size: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The visible records of a range in their order: `offset`, `key`, `value`, and the columns that are asked for.

    Args:
        config: the client's configuration.
        wanted: the range.
        columns: `timestamp` (milliseconds) and `headers`, which take a call for each record.
        isolation: `read_uncommitted` also returns records of transactions that are open or aborted.
        rows: the most records of a batch.
        size: the most bytes of a batch; a single record may be larger.
    """
    if wanted.start >= wanted.end:
        return
    settings = {**config, **SETTINGS, "isolation.level": isolation}
    consumer = open_partition(settings, wanted.topic, wanted.partition, wanted.start, columns)
    try:
        for fetched in fetch_range(consumer, wanted, rows, size):
            yield from split_by_size(to_batch(fetched), size)
    finally:
        consumer.close()


def fetch_range(consumer: PartitionConsumer, wanted: PartitionRange, rows: int, size: int) -> Iterator[Fetched]:
    """Fetch until no record before the end of the range can follow."""
    position, deadline, limit = wanted.start, Deadline(TIMEOUT_SECONDS), rows
    while position < wanted.end:
        if deadline.passed:
            raise PartitionUnreadable(wanted.topic, wanted.partition, position, wanted.end)
        fetched = consumer.fetch(min(limit, wanted.end - position), FETCH_SECONDS)
        if len(fetched.offsets):
            check_order(fetched, position, wanted)
            position = int(fetched.offsets[-1]) + 1
            limit = min(rows, records_within(size, fetched))
            deadline.restart()
            yield before(fetched, wanted.end)
        for error, offset in fetched.errors:
            if error.code() == KafkaError._PARTITION_EOF:
                position = max(position, offset)  # past markers and aborted records
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise RangeTruncated(wanted.topic, wanted.partition, position)
            elif not is_transient(error):
                raise KafkaException(error)


def records_within(size: int, fetched: Fetched) -> int:
    """How many records like the fetched ones fit into a batch: more would be copied, only to be split afterwards."""
    return max(1, size * len(fetched.offsets) // max(1, int(fetched.keys.nbytes + fetched.values.nbytes)))


def check_order(fetched: Fetched, position: int, wanted: PartitionRange) -> None:
    """Refuse a record that the client returns twice or out of order."""
    steps = np.diff(fetched.offsets, prepend=position - 1)
    if (steps <= 0).any():
        offset = int(fetched.offsets[np.argmax(steps <= 0)])
        raise EosError(
            f"The client returned offset {offset} of {wanted.topic}/{wanted.partition} again or out of order.",
            "Run again, and report it: this is an error of the client or of the broker.",
        )


def before(fetched: Fetched, end: int) -> Fetched:
    """The records before an offset."""
    count = int(np.searchsorted(fetched.offsets, end))
    if count == len(fetched.offsets):
        return fetched
    return Fetched(
        fetched.offsets[:count],
        fetched.keys[:count],
        fetched.values[:count],
        None if fetched.timestamps is None else fetched.timestamps[:count],
        None if fetched.headers is None else fetched.headers[:count],
    )


def to_batch(fetched: Fetched) -> pa.RecordBatch:
    columns = {"offset": pa.array(fetched.offsets), "key": fetched.keys, "value": fetched.values}
    if fetched.timestamps is not None:
        columns["timestamp"] = fetched.timestamps
    if fetched.headers is not None:
        columns["headers"] = fetched.headers
    return pa.record_batch(columns)


def split_by_size(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Split a batch so that each is within the limit, or a single record."""
    if batch.num_rows > 1 and batch.nbytes > size:
        middle = batch.num_rows // 2
        yield from split_by_size(batch.slice(0, middle), size)
        yield from split_by_size(batch.slice(middle), size)
    elif batch.num_rows:
        yield batch


def open_partition(
    config: dict[str, Any], topic: str, partition: int, start: int, columns: Sequence[str] = ()
) -> PartitionConsumer:
    """A consumer that begins at an offset. Columns are `timestamp` and `headers`, which take a call for each record."""
    kind = ArrowConsumer if layout_is_known() else PlainConsumer
    return kind(config, topic, partition, start, columns)


class ArrowConsumer:
    """Fetches records through the memory of librdkafka."""

    def __init__(
        self, config: dict[str, Any], topic: str, partition: int, start: int, columns: Sequence[str] = ()
    ) -> None:
        self._columns = columns
        self._pointers = np.zeros(0, np.uint64)
        self._handle = c.new_client(c.CONSUMER, config)
        library.poll_set_consumer(self._handle)
        self._queue = library.queue_get_consumer(self._handle)
        assigned = library.topic_partition_list_new(1)
        library.topic_partition_list_add(assigned, topic.encode(), partition).contents.offset = start
        try:
            c.check_code(library.assign(self._handle, assigned))
        finally:
            library.topic_partition_list_destroy(assigned)

    def fetch(self, rows: int, seconds: float) -> Fetched:
        if len(self._pointers) < rows:
            self._pointers = np.zeros(rows, np.uint64)
        count = library.consume_batch_queue(self._queue, int(seconds * 1000), self._pointers.ctypes.data, rows)
        if count < 0:
            raise KafkaException(c.kafka_error(KafkaError._FAIL))
        pointers = self._pointers[:count]
        try:
            return copy_messages(pointers, self._columns)
        finally:
            deque(map(c.destroy_message, pointers.tolist()), maxlen=0)

    def close(self) -> None:
        if self._handle:
            library.queue_destroy(self._queue)
            library.destroy_flags(self._handle, c.DESTROY_WITHOUT_CLOSE)
            self._handle = 0

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.close()


class PlainConsumer:
    """Fetches the same records with the Python client: ten times slower, without assumptions about memory layouts."""

    def __init__(
        self, config: dict[str, Any], topic: str, partition: int, start: int, columns: Sequence[str] = ()
    ) -> None:
        self._columns = columns
        self._consumer = Consumer(config)
        self._consumer.assign([TopicPartition(topic, partition, start)])

    def fetch(self, rows: int, seconds: float) -> Fetched:
        messages = self._consumer.consume(rows, seconds)
        records = [message for message in messages if message.error() is None]
        return Fetched(
            np.array([message.offset() for message in records], np.int64),
            pa.array([message.key() for message in records], pa.binary()),
            pa.array([message.value() for message in records], pa.binary()),
            pa.array([timestamp_of(message) for message in records], pa.int64())
            if "timestamp" in self._columns
            else None,
            headers_array([headers_of(message) for message in records]) if "headers" in self._columns else None,
            [(error, message.offset() or 0) for message in messages if (error := message.error())],
        )

    def close(self) -> None:
        self._consumer.close()


def timestamp_of(message: Message) -> int | None:
    milliseconds = message.timestamp()[1]
    return None if milliseconds == NO_TIMESTAMP else milliseconds
