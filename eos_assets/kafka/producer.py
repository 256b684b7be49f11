"""A transactional producer of Arrow columns that creates no Python object per record."""

import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from eos_assets.deadlines import Deadline
from eos_assets.kafka import _librdkafka as c
from eos_assets.kafka._librdkafka import MESSAGE, check, library
from eos_assets.kafka.headers import Header
from eos_assets.kafka.partitioner import value_bounds
from eos_assets.kafka.retries import retry_with_growing_timeout

Addresses = npt.NDArray[np.uintp]

#: An address for empty values, because a null pointer means a null value.
EMPTY = np.zeros(1, np.uint8)


def message_array(keys: pa.Array, values: pa.Array) -> npt.NDArray[np.void]:
    """One message per row. It holds addresses into the two columns, so they must outlive it."""
    messages = np.zeros(len(values), MESSAGE)
    messages["key"], messages["key_len"] = addresses(keys)
    messages["payload"], messages["len"] = addresses(values)
    return messages


def addresses(column: pa.Array) -> tuple[Addresses, Addresses]:
    """The address of each value, 0 for a null, and its length."""
    bounds, data = value_bounds(column).astype(np.uintp), column.buffers()[2]
    base = data.address if data is not None and data.size else EMPTY.ctypes.data
    starts, lengths = np.uintp(base) + bounds[:-1], np.diff(bounds)
    if column.null_count:
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        starts[nulls], lengths[nulls] = 0, 0
    return starts, lengths


#: What may wait in a producer's queue. The library's own limits are higher, so that it never refuses a record.
QUEUE_ROWS = 100_000
QUEUE_BYTES = 48 << 20

SETTINGS = {
    "queue.buffering.max.kbytes": 64 << 10,
    "queue.buffering.max.messages": 2 * QUEUE_ROWS,
    "batch.num.messages": 100_000,
    "linger.ms": 1,
    "retry.backoff.ms": 20,
    "compression.type": "lz4",
    "message.max.bytes": 64 << 20,  # the limits of the broker and the topic decide
}


class NotQueued(KafkaException):
    """The producer refused the record at `index` of a batch. It accepted those before it."""

    def __init__(self, error: KafkaError, index: int) -> None:
        super().__init__(error)
        self.index = index


class QueuedBytes:
    """An upper bound of the bytes in a producer's queue: librdkafka reports only the number of records."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int]] = deque()
        self._rows = self._bytes = 0

    def add(self, rows: int, size: int) -> None:
        self._batches.append((rows, size))
        self._rows += rows
        self._bytes += size

    def count(self, waiting: int) -> int:
        """The bytes of the newest batches that together hold at least the waiting records."""
        while len(self._batches) > 1 and self._rows - self._batches[0][0] >= waiting:
            rows, size = self._batches.popleft()
            self._rows -= rows
            self._bytes -= size
        return self._bytes


class Producer:
    """One librdkafka producer."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._handle = c.new_client(c.PRODUCER, {**SETTINGS, **config})
        self._queue = library.queue_get_main(self._handle)
        self._topics: dict[str, int] = {}
        self._queued = QueuedBytes()
        self._polling = threading.Lock()
        #: Topic and partition → the offsets of the acknowledged records, in the order in which they were produced.
        self.delivered: dict[tuple[str, int], list[range]] = defaultdict(list)
        #: Topic and partition → the first error.
        self.failed: dict[tuple[str, int], KafkaError] = {}
        #: Topic and partition → the records that got this error, numbered as they were produced, from 0.
        self.failed_rows: dict[tuple[str, int], range] = {}

    def close(self) -> None:
        """Free the producer, and discard the records in its queue."""
        if self._handle:
            for topic in self._topics.values():
                library.topic_destroy(topic)
            library.queue_destroy(self._queue)
            library.destroy(self._handle)
            self._handle = 0

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.close()

    def __len__(self) -> int:
        """The number of records without a delivery report."""
        return int(library.outq_len(self._handle))

    def connect(self, topic: str, partition: int, seconds: float) -> None:
        """Wait until the leader of a partition has answered, so that there is a connection to it."""
        retry_with_growing_timeout(
            lambda timeout: c.query_watermarks(self._handle, topic, partition, milliseconds(timeout)), seconds
        )

    def has_room(self, rows: int, size: int) -> bool:
        """Whether a batch of this size fits into the queue. A full queue would refuse records in the middle of the
        batch, and break the order."""
        waiting = len(self)
        return not waiting or (waiting + rows <= QUEUE_ROWS and self._queued.count(waiting) + size <= QUEUE_BYTES)

    def produce_batch(self, topic: str, partition: int, messages: npt.NDArray[np.void]) -> None:
        """Produce a `message_array` in its order. The bytes are copied before this returns."""
        count = len(messages)
        self._queued.add(count, int((messages["len"] + messages["key_len"]).sum()))
        accepted = library.produce_batch(self._topic(topic), partition, c.MSG_F_COPY, messages.ctypes.data, count)
        if accepted != count:
            index = int(np.flatnonzero(messages["err"])[0])
            raise NotQueued(c.kafka_error(int(messages["err"][index])), index)

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: int | None = None,
    ) -> None:
        """Produce a single record, which may have headers and a timestamp."""
        self._queued.add(1, len(key or b"") + len(value or b""))
        c.produce_record(self._handle, self._topic(topic), partition, key, value, headers, timestamp)

    def poll(self, seconds: float = 0.0) -> None:
        """Receive all delivery reports that have arrived. If there is none, wait for the first."""
        timeout = milliseconds(seconds)
        with self._polling:
            while event := library.queue_poll(self._queue, timeout):
                if library.event_type(event) == c.EVENT_DR:
                    self._record(c.read_delivery_report(event))
                library.event_destroy(event)
                timeout = 0

    def _record(self, report: c.DeliveryReport) -> None:
        target = (report.topic, report.partition)
        if report.code:
            self.failed.setdefault(target, c.kafka_error(report.code))
            before = sum(map(len, self.delivered[target]))
            self.failed_rows.setdefault(target, range(before, before + report.count))
        else:
            self.delivered[target].append(range(report.first, report.last + 1))

    def fatal_error(self) -> KafkaError | None:
        """The error that made this producer unusable, if there is one."""
        return c.fatal_error(self._handle)

    def transaction_error(self) -> KafkaError | None:
        """The error after which the open transaction can only be aborted, if there is one. The delivery reports of its
        other records only report that they were purged; the next call of the transaction API reports the cause."""
        try:
            self.begin_transaction()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            return error if error.txn_requires_abort() else None
        return None

    def flush(self, seconds: float) -> int:
        """Wait for all delivery reports. Returns the number that is still missing at the deadline."""
        deadline = Deadline(seconds)
        while len(self) and not deadline.passed:
            self.poll(0.05)
        return len(self)

    def purge(self) -> None:
        """Discard the records that wait in the queue or for their acknowledgement."""
        library.purge(self._handle, c.PURGE_QUEUE | c.PURGE_INFLIGHT)
        self.poll()

    def init_transactions(self, seconds: float) -> None:
        check(library.init_transactions(self._handle, milliseconds(seconds)))

    def begin_transaction(self) -> None:
        check(library.begin_transaction(self._handle))

    def send_offset(self, topic: str, partition: int, offset: int, group: str, seconds: float) -> None:
        """Make the offset of one partition in a consumer group part of the transaction."""
        c.send_offset_to_transaction(self._handle, topic, partition, offset, group, milliseconds(seconds))

    def commit_transaction(self, seconds: float) -> None:
        check(library.commit_transaction(self._handle, milliseconds(seconds)))

    def abort_transaction(self, seconds: float) -> None:
        """Discard the records that wait, and abort the transaction. The call waits for delivery reports and does not
        poll for them itself."""
        with self._poll_meanwhile():
            check(library.abort_transaction(self._handle, milliseconds(seconds)))

    @contextmanager
    def _poll_meanwhile(self) -> Iterator[None]:
        done = threading.Event()

        def poll() -> None:
            while not done.is_set():
                self.poll(0.02)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = library.topic_new(self._handle, name.encode(), None)
        return self._topics[name]


def milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
