"""Copies librdkafka's messages into Arrow arrays, without a Python object for each record.

NumPy reads the fields of all messages through a view of the process's memory, and Arrow copies keys and values. A wrong
layout would end the worker without a message, so `layout_is_known` compares it with real messages first.
"""

import contextlib
import ctypes
import functools
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from eos_assets.kafka import _librdkafka as c
from eos_assets.kafka._librdkafka import MESSAGE, library
from eos_assets.kafka.headers import Header

logger = logging.getLogger(__name__)

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
#: librdkafka keeps its public structs within a major version. This is the one that is tested.
KNOWN_MAJOR_VERSION = 2
#: librdkafka's value for a timestamp that a record does not have.
NO_TIMESTAMP = -1


@dataclass(frozen=True)
class Fetched:
    """Records of one partition in their order, and the errors among them."""

    offsets: Integers
    keys: pa.Array
    values: pa.Array
    #: In milliseconds; None unless asked for.
    timestamps: pa.Array | None = None
    headers: pa.Array | None = None
    #: Each with the offset at which it happened. The end of the partition is one, too.
    errors: Sequence[tuple[KafkaError, int]] = ()


def headers_array(rows: Sequence[Sequence[Header]]) -> pa.Array:
    return pa.array([[{"key": key, "value": value} for key, value in headers] for headers in rows], HEADERS)


def copy_messages(pointers: Words, columns: Sequence[str] = ()) -> Fetched:
    """Copy what these messages hold."""
    fields = read_fields(pointers)
    is_error = fields.err != 0
    errors = [
        (c.kafka_error(code), offset)
        for code, offset in zip(fields.err[is_error].tolist(), fields.offset[is_error].tolist(), strict=True)
    ]
    if errors:
        pointers, fields = pointers[~is_error], fields.take(~is_error)
    return Fetched(
        fields.offset,
        copy_bytes(fields.key, fields.key_len),
        copy_bytes(fields.payload, fields.len),
        copy_timestamps(pointers) if "timestamp" in columns else None,
        copy_headers(pointers) if "headers" in columns else None,
        errors,
    )


@dataclass(frozen=True)
class Fields:
    """The fields of messages, one array for each."""

    err: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]
    payload: Words
    len: Words
    key: Words
    key_len: Words
    offset: Integers

    def take(self, chosen: npt.NDArray[np.bool_]) -> "Fields":
        return Fields(**{name: getattr(self, name)[chosen] for name in WORDS})


#: Field → the number of its word in a message.
WORDS = {
    name: MESSAGE.fields[name][1] // 8  # type: ignore[index]
    for name in ("err", "partition", "payload", "len", "key", "key_len", "offset")
}
#: The first address of the view. A page at zero is never mapped, and NumPy would take a null pointer for no buffer.
FIRST_ADDRESS = 4096
#: Every address that Linux gives a process is below this one.
LAST_ADDRESS = 1 << 47


@functools.cache
def memory() -> Words:
    """The memory of this process as words of eight bytes. Only addresses that librdkafka returned may be read."""
    words = (ctypes.c_uint64 * ((LAST_ADDRESS - FIRST_ADDRESS) // 8)).from_address(FIRST_ADDRESS)
    return np.ctypeslib.as_array(words)


def read_fields(pointers: Words) -> Fields:
    """The fields of the messages at these addresses."""
    if ((pointers < FIRST_ADDRESS) | (pointers >= LAST_ADDRESS) | (pointers % np.uint64(8) != 0)).any():
        raise KafkaException(KafkaError(KafkaError._BAD_MSG, "a message has an address that is not valid"))
    first = ((pointers - np.uint64(FIRST_ADDRESS)) // np.uint64(8)).astype(np.int64)
    words = {name: memory()[first + word] for name, word in WORDS.items()}
    return Fields(
        words["err"].astype(np.uint32).view(np.int32),
        words["partition"].astype(np.uint32).view(np.int32),
        words["payload"],
        words["len"],
        words["key"],
        words["key_len"],
        words["offset"].view(np.int64),
    )


def copy_bytes(addresses: Words, lengths: Words) -> pa.Array:
    """The bytes at these addresses; null where an address is zero."""
    count = len(addresses)
    present = addresses != 0
    if not present.any():
        return pa.nulls(count, pa.binary())
    base = int(addresses[present].min())
    starts = np.where(present, addresses - np.uint64(base), np.uint64(0)).view(np.int64)
    sizes = np.where(present, lengths, np.uint64(0)).view(np.int64)
    # Start, end, start, end …: every second element is a value, and nothing else is read. The last element makes the
    # whole look as long as all values are, because Arrow allocates by the mean length.
    bounds = np.empty(2 * count + 2, np.int64)
    bounds[0:-2:2], bounds[1:-2:2] = starts, starts + sizes
    bounds[-2], bounds[-1] = bounds[0], bounds[0] + sizes.sum()
    data = pa.foreign_buffer(base, int(max((starts + sizes).max(), bounds[-1])))
    spread = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * count + 1, [None, pa.py_buffer(bounds), data])
    mask = None if present.all() else ~present
    copied = spread.take(pa.array(np.arange(0, 2 * count, 2), mask=mask))
    return copied.cast(pa.binary())


def copy_timestamps(pointers: Words) -> pa.Array:
    kind = ctypes.c_int()
    values = [library.message_timestamp(pointer, ctypes.byref(kind)) for pointer in pointers.tolist()]
    return pa.array([None if value == NO_TIMESTAMP else value for value in values], pa.int64())


def copy_headers(pointers: Words) -> pa.Array:
    """The headers of each record, an empty list for none."""
    addresses = pointers.tolist()
    codes = list(map(c.message_headers, addresses, itertools.repeat(ctypes.byref(ctypes.c_void_p()))))
    if all(codes):  # no record has any
        bounds, nothing = np.zeros(len(addresses) + 1, np.int32), pa.array([], HEADERS.value_type)
        return pa.ListArray.from_arrays(pa.array(bounds), nothing)
    return headers_array([() if code else read_headers(each) for code, each in zip(codes, addresses, strict=True)])


def read_headers(pointer: int) -> list[Header]:
    """The headers of a message. A name that is not UTF-8 has its bytes replaced, as in Kafka's Java client."""
    headers, name, value = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_void_p()
    size = ctypes.c_size_t()
    if c.message_headers(pointer, ctypes.byref(headers)):
        return []
    decoded: list[Header] = []
    while not library.header_get_all(
        headers, len(decoded), ctypes.byref(name), ctypes.byref(value), ctypes.byref(size)
    ):
        content = ctypes.string_at(value.value, size.value) if value.value else None
        decoded.append(((name.value or b"").decode(errors="replace"), content))
    return decoded


@functools.cache
def layout_is_known() -> bool:
    """Whether this process can read librdkafka's messages: their layout is tried once on real ones."""
    version = library.version()
    with contextlib.suppress(KafkaException):  # an address that this view of the memory does not reach
        if version >> 24 == KNOWN_MAJOR_VERSION and layout_is_as_declared():
            return True
    logger.warning(
        "librdkafka %08x has messages of an unknown layout. Records are read with the Python client, which is slower.",
        version,
        extra={"librdkafka": f"{version:08x}"},
    )
    return False


#: What the layout is tried with: a key and a value of different lengths, and neither.
TRIALS = ((b"key", b"a longer value"), (None, None))
TRIAL_PARTITION = 7
TRIAL_MS = 5000
PURGED = KafkaError._PURGE_QUEUE
NO_OFFSET = -1001


def layout_is_as_declared() -> bool:
    """Let a producer without brokers return records whose fields are all known, and read them."""
    handle = c.new_client(c.PRODUCER, {"log_level": 0})
    topic = library.topic_new(handle, b"layout", None)
    queue = library.queue_get_main(handle)
    try:
        for key, value in TRIALS:
            c.produce_record(handle, topic, TRIAL_PARTITION, key, value, (), None)
        library.purge(handle, c.PURGE_QUEUE)
        event = library.queue_poll(queue, TRIAL_MS)
        pointers = np.zeros(len(TRIALS), np.uint64)
        if not event or library.event_message_array(event, pointers.ctypes.data, len(TRIALS)) != len(TRIALS):
            return False
        try:
            return reads_trials(pointers)
        finally:
            library.event_destroy(event)
    finally:
        library.queue_destroy(queue)
        library.topic_destroy(topic)
        library.destroy(handle)


def reads_trials(pointers: Words) -> bool:
    """Whether these messages have the fields of the trials. No address is followed before the numbers are right."""
    fields = read_fields(pointers)
    numbers = np.stack(
        [fields.err, fields.partition, fields.offset, fields.len, fields.key_len],
        axis=1,
        dtype=np.int64,
        casting="unsafe",
    )
    expected = [(PURGED, TRIAL_PARTITION, NO_OFFSET, len(value or b""), len(key or b"")) for key, value in TRIALS]
    nulls = [(key is None, value is None) for key, value in TRIALS]
    if numbers.tolist() != [list(row) for row in expected]:
        return False
    if list(zip((fields.key == 0).tolist(), (fields.payload == 0).tolist(), strict=True)) != nulls:
        return False
    keys, values = copy_bytes(fields.key, fields.key_len), copy_bytes(fields.payload, fields.len)
    return list(zip(keys.to_pylist(), values.to_pylist(), strict=True)) == list(TRIALS)
