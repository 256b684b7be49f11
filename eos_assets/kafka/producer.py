"""A producer for columns: Arrow arrays in, records in Kafka and their offsets out, with no Python object per record."""

import ctypes
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from eos_assets.kafka import _librdkafka as c
from eos_assets.kafka._librdkafka import library
from eos_assets.kafka.connection import ask_shortly
from eos_assets.kafka.partitioner import bounds_of

Addresses = npt.NDArray[np.uintp]
Headers = Sequence[tuple[str, bytes | None]]

#: What may wait in a producer's queue. The library's own limits lie above, so it never refuses a record in between.
QUEUE_ROWS = 100_000
QUEUE_BYTES = 48 << 20

SETTINGS = {
    "queue.buffering.max.kbytes": 64 << 10,
    "queue.buffering.max.messages": 2 * QUEUE_ROWS,
    "batch.num.messages": 100_000,
    "linger.ms": 1,
    "retry.backoff.ms": 20,
    "compression.type": "lz4",
    "message.max.bytes": 64 << 20,  # the broker's and the topic's limits decide
}

#: An address for empty values: a null pointer would be a null value.
EMPTY = ctypes.create_string_buffer(1)
ERROR_SIZE = 512


class NotQueued(KafkaException):
    """The producer did not take a record of a batch: the one at `index`. Those before it were taken."""

    def __init__(self, error: KafkaError, index: int) -> None:
        super().__init__(error)
        self.index = index


class Producer:
    """One librdkafka producer. `delivered` holds, per topic and partition, the offsets of what was acknowledged, in the
    order in which it was produced; `failed` holds the first error of each, and `failed_rows` which of its records the
    batch held that got it, counted from 0."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._handle: int | None = new_handle({**SETTINGS, **config})
        self._queue = library.queue_get_main(self._handle)
        self._topics: dict[str, int] = {}
        self._chunks: deque[tuple[int, int]] = deque()
        self._rows = self._bytes = 0  # of all chunks
        self._serving = threading.Lock()
        self.delivered: dict[tuple[str, int], list[range]] = defaultdict(list)
        self.failed: dict[tuple[str, int], KafkaError] = {}
        self.failed_rows: dict[tuple[str, int], range] = {}

    def close(self) -> None:
        """Gives everything back. What still waits in the queue is thrown away."""
        if self._handle:
            for topic in self._topics.values():
                library.topic_destroy(topic)
            library.queue_destroy(self._queue)
            library.destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __len__(self) -> int:
        """The records that have no report yet."""
        return int(library.outq_len(self._handle))

    def connect(self, topic: str, partition: int, seconds: float) -> None:
        """Waits until the leader of a partition has answered, so that a connection to it is up."""
        ask_shortly(lambda limit: self._ask_leader(topic, partition, limit), seconds)

    def _ask_leader(self, topic: str, partition: int, seconds: float) -> None:
        low, high = ctypes.c_int64(), ctypes.c_int64()
        error = library.query_watermark_offsets(
            self._handle, topic.encode(), partition, ctypes.byref(low), ctypes.byref(high), milliseconds(seconds)
        )
        if error:
            raise KafkaException(KafkaError(error, library.err2str(error).decode()))

    def has_room(self, rows: int, size: int) -> bool:
        """Whether so many rows and bytes fit into the queue. A batch that met a full queue would lose records in the
        middle, and so the order."""
        waiting = len(self)
        return not waiting or (waiting + rows <= QUEUE_ROWS and self._queued_bytes(waiting) + size <= QUEUE_BYTES)

    def _queued_bytes(self, waiting: int) -> int:
        """The bytes of the newest batches that hold as many records as wait."""
        while len(self._chunks) > 1 and self._rows - self._chunks[0][0] >= waiting:
            rows, size = self._chunks.popleft()
            self._rows -= rows
            self._bytes -= size
        return self._bytes

    def _note(self, rows: int, size: int) -> None:
        self._chunks.append((rows, size))
        self._rows += rows
        self._bytes += size

    def produce_batch(self, topic: str, partition: int, messages: npt.NDArray[np.void]) -> None:
        """Takes an array of `messages_of`, in its order. The bytes are copied before this returns."""
        count = len(messages)
        self._note(count, int((messages["len"] + messages["key_len"]).sum()))
        taken = library.produce_batch(self._topic(topic), partition, c.MSG_F_COPY, messages.ctypes.data, count)
        if taken != count:
            index = int(np.flatnonzero(messages["err"])[0])
            code = int(messages["err"][index])
            raise NotQueued(KafkaError(code, library.err2str(code).decode()), index)

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> None:
        """A single record, with headers and a timestamp if it has any."""
        arguments = (c.Argument * (6 + len(headers)))()
        for argument, kind in zip(arguments, KINDS, strict=False):
            argument.vtype = kind
        arguments[0].u.rkt = self._topic(topic)
        arguments[1].u.i32 = partition
        arguments[2].u.mem.ptr, arguments[2].u.mem.size = value, len(value or b"")
        arguments[3].u.mem.ptr, arguments[3].u.mem.size = key, len(key or b"")
        arguments[4].u.i = c.MSG_F_COPY
        arguments[5].u.i64 = timestamp or 0  # 0 is now
        names = [name.encode() for name, _ in headers]
        for argument, name, (_, content) in zip(arguments[6:], names, headers, strict=True):
            argument.vtype = c.VTYPE_HEADER
            argument.u.header.name, argument.u.header.val = name, content
            argument.u.header.size = 0 if content is None else len(content)
        self._note(1, len(key or b"") + len(value or b""))
        library.check(library.produceva(self._handle, arguments, len(arguments)))

    def poll(self, seconds: float = 0.0) -> None:
        """Takes in all delivery reports that are there, and waits for the first if there is none."""
        wait = milliseconds(seconds)
        with self._serving:
            while event := library.queue_poll(self._queue, wait):
                if library.event_type(event) == c.EVENT_DR:
                    self._take_in(event)
                library.event_destroy(event)
                wait = 0

    def _take_in(self, event: int) -> None:
        """An event reports one batch of one partition: it has one error, or offsets without a gap."""
        count = library.event_message_count(event)
        array = (ctypes.POINTER(c.Message) * count)()
        library.event_message_array(event, array, count)
        first, last = array[0].contents, array[count - 1].contents
        place = (library.topic_name(first.rkt).decode(), first.partition)
        code = first.err or last.err
        if not code and (first.offset < 0 or last.offset - first.offset != count - 1):
            code = KafkaError._INCONSISTENT  # repeated by the client, and the broker no longer knew its offset
        if code:
            self.failed.setdefault(place, KafkaError(code, library.err2str(code).decode()))
            before = sum(map(len, self.delivered[place]))
            self.failed_rows.setdefault(place, range(before, before + count))
        else:
            self.delivered[place].append(range(first.offset, last.offset + 1))

    def fatal_error(self) -> KafkaError | None:
        """What broke this producer for good, if anything did."""
        problem = ctypes.create_string_buffer(ERROR_SIZE)
        code = library.fatal_error(self._handle, problem, ERROR_SIZE)
        return KafkaError(code, problem.value.decode(errors="replace")) if code else None

    def transaction_error(self) -> KafkaError | None:
        """Why the transaction that has begun can only be aborted, if so: told to whoever asks for another step. The
        records of it that wait are only said to be thrown away."""
        try:
            self.begin_transaction()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            return error if error.txn_requires_abort() else None
        return None

    def flush(self, seconds: float) -> int:
        """Waits for all reports; returns how many are still missing in the end."""
        deadline = time.monotonic() + seconds
        while len(self) and time.monotonic() < deadline:
            self.poll(0.05)
        return len(self)

    def purge(self) -> None:
        library.purge(self._handle, c.PURGE_QUEUE | c.PURGE_INFLIGHT)
        self.poll()

    def init_transactions(self, seconds: float) -> None:
        library.check(library.init_transactions(self._handle, milliseconds(seconds)))

    def begin_transaction(self) -> None:
        library.check(library.begin_transaction(self._handle))

    def send_offset(self, topic: str, partition: int, offset: int, group: str, seconds: float) -> None:
        """Makes the offset of a group part of the transaction."""
        offsets = library.topic_partition_list_new(1)
        library.topic_partition_list_add(offsets, topic.encode(), partition).contents.offset = offset
        metadata = library.consumer_group_metadata_new(group.encode())
        try:
            wait = milliseconds(seconds)
            library.check(library.send_offsets_to_transaction(self._handle, offsets, metadata, wait))
        finally:
            library.consumer_group_metadata_destroy(metadata)
            library.topic_partition_list_destroy(offsets)

    def commit_transaction(self, seconds: float) -> None:
        library.check(library.commit_transaction(self._handle, milliseconds(seconds)))

    def abort_transaction(self, seconds: float) -> None:
        """Throws away what waits and ends the transaction. The call itself does not serve the reports it waits for."""
        with self._served():
            library.check(library.abort_transaction(self._handle, milliseconds(seconds)))

    @contextmanager
    def _served(self) -> Iterator[None]:
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                self.poll(0.02)

        thread = threading.Thread(target=serve, daemon=True)
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


KINDS = (
    c.VTYPE_RKT,
    c.VTYPE_PARTITION,
    c.VTYPE_VALUE,
    c.VTYPE_KEY,
    c.VTYPE_MSGFLAGS,
    c.VTYPE_TIMESTAMP,
)


def new_handle(config: dict[str, Any]) -> int:
    """A producer with these settings; a wrong one is named."""
    problem = ctypes.create_string_buffer(ERROR_SIZE)
    settings = library.conf_new()
    for name, value in config.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if library.conf_set(settings, name.encode(), text.encode(), problem, ERROR_SIZE):
            library.conf_destroy(settings)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, problem.value.decode()))
    library.conf_set_events(settings, c.EVENT_DR)
    handle = library.new(c.PRODUCER, settings, problem, ERROR_SIZE)
    if not handle:
        library.conf_destroy(settings)
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, problem.value.decode()))
    return int(handle)


def messages_of(keys: pa.Array, values: pa.Array) -> npt.NDArray[np.void]:
    """Records as the C library takes them: addresses into these arrays, which must outlive the result."""
    messages = np.zeros(len(values), c.MESSAGE)
    messages["key"], messages["key_len"] = addresses(keys)
    messages["payload"], messages["len"] = addresses(values)
    return messages


def addresses(column: pa.Array) -> tuple[Addresses, Addresses]:
    """Where each value begins, 0 for a null, and its length."""
    bounds, data = bounds_of(column).astype(np.uintp), column.buffers()[2]
    base = data.address if data is not None and data.size else ctypes.addressof(EMPTY)
    begins, lengths = np.uintp(base) + bounds[:-1], np.diff(bounds)
    if column.null_count:
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        begins[nulls], lengths[nulls] = 0, 0
    return begins, lengths


def milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
