"""The functions of librdkafka that confluent-kafka does not offer, in the library that it installs.

confluent-kafka creates a Python object for every record and every delivery report. The C functions take a batch of
records as an array, see docs/decisions/0004. Only the library's public header is used, and ctypes only here.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException, cimpl

from eos_assets.kafka.headers import Header

PRODUCER, CONSUMER = 0, 1
MSG_F_COPY = 0x2
EVENT_DR = 0x1
PURGE_QUEUE, PURGE_INFLIGHT = 0x1, 0x2
#: A consumer without a group has nothing to leave when it is destroyed.
DESTROY_WITHOUT_CLOSE = 0x8

#: rd_kafka_message_t
MESSAGE = np.dtype(
    [
        ("err", np.int32),
        ("rkt", np.uintp),
        ("partition", np.int32),
        ("payload", np.uintp),
        ("len", np.uintp),
        ("key", np.uintp),
        ("key_len", np.uintp),
        ("offset", np.int64),
        ("private", np.uintp),
    ],
    align=True,
)


class Message(ctypes.Structure):
    """rd_kafka_message_t, to read a single message."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class _Memory(ctypes.Structure):
    _fields_ = (("ptr", c_char_p), ("size", c_size_t))


class _Header(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("val", c_char_p), ("size", c_ssize_t))


class _Union(ctypes.Union):
    _fields_ = (
        ("rkt", c_void_p),
        ("i", c_int),
        ("i32", c_int32),
        ("i64", c_int64),
        ("mem", _Memory),
        ("header", _Header),
        ("pad", ctypes.c_char * 64),
    )


class Argument(ctypes.Structure):
    """rd_kafka_vu_t: one argument of `rd_kafka_produceva`."""

    _fields_ = (("vtype", c_int), ("u", _Union))


VTYPE_RKT, VTYPE_PARTITION, VTYPE_VALUE, VTYPE_KEY = 2, 3, 4, 5
VTYPE_MSGFLAGS, VTYPE_TIMESTAMP, VTYPE_HEADER = 7, 8, 9


class TopicPartition(ctypes.Structure):
    """rd_kafka_topic_partition_t"""

    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    )


#: Function → result, arguments.
SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "conf_new": (c_void_p, []),
    "conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "conf_set_events": (None, [c_void_p, c_int]),
    "conf_destroy": (None, [c_void_p]),
    "new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "destroy": (None, [c_void_p]),
    "destroy_flags": (None, [c_void_p, c_int]),
    "version": (c_int, []),
    "topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
    "topic_name": (c_char_p, [c_void_p]),
    "topic_destroy": (None, [c_void_p]),
    "query_watermark_offsets": (
        c_int,
        [c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int],
    ),
    "produce_batch": (c_int, [c_void_p, c_int32, c_int, c_void_p, c_int]),
    "produceva": (c_void_p, [c_void_p, c_void_p, c_size_t]),
    "outq_len": (c_int, [c_void_p]),
    "purge": (c_int, [c_void_p, c_int]),
    "queue_get_main": (c_void_p, [c_void_p]),
    "queue_get_consumer": (c_void_p, [c_void_p]),
    "poll_set_consumer": (c_int, [c_void_p]),
    "assign": (c_int, [c_void_p, c_void_p]),
    "consume_batch_queue": (c_ssize_t, [c_void_p, c_int, c_void_p, c_size_t]),
    "message_timestamp": (c_int64, [c_void_p, POINTER(c_int)]),
    "header_get_all": (
        c_int,
        [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_void_p), POINTER(c_size_t)],
    ),
    "queue_poll": (c_void_p, [c_void_p, c_int]),
    "queue_destroy": (None, [c_void_p]),
    "event_type": (c_int, [c_void_p]),
    "event_message_count": (c_size_t, [c_void_p]),
    "event_message_array": (c_size_t, [c_void_p, c_void_p, c_size_t]),
    "event_destroy": (None, [c_void_p]),
    "err2str": (c_char_p, [c_int]),
    "fatal_error": (c_int, [c_void_p, c_char_p, c_size_t]),
    "error_code": (c_int, [c_void_p]),
    "error_string": (c_char_p, [c_void_p]),
    "error_is_fatal": (c_int, [c_void_p]),
    "error_is_retriable": (c_int, [c_void_p]),
    "error_txn_requires_abort": (c_int, [c_void_p]),
    "error_destroy": (None, [c_void_p]),
    "init_transactions": (c_void_p, [c_void_p, c_int]),
    "begin_transaction": (c_void_p, [c_void_p]),
    "send_offsets_to_transaction": (c_void_p, [c_void_p, c_void_p, c_void_p, c_int]),
    "commit_transaction": (c_void_p, [c_void_p, c_int]),
    "abort_transaction": (c_void_p, [c_void_p, c_int]),
    "topic_partition_list_new": (c_void_p, [c_int]),
    "topic_partition_list_add": (POINTER(TopicPartition), [c_void_p, c_char_p, c_int32]),
    "topic_partition_list_destroy": (None, [c_void_p]),
    "consumer_group_metadata_new": (c_void_p, [c_char_p]),
    "consumer_group_metadata_destroy": (None, [c_void_p]),
}


class Library:
    """The functions, without their prefix `rd_kafka_`. Each call releases the GIL."""

    def __init__(self) -> None:
        loaded = ctypes.CDLL(cimpl.__file__)  # finds the symbols of the libraries that it is linked to, too
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(loaded, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Each of `SIGNATURES`."""


library = Library()
#: These are called for every record that is read. They are so short that releasing the GIL takes longer.
_holding_the_gil = ctypes.PyDLL(cimpl.__file__)
destroy_message = _holding_the_gil.rd_kafka_message_destroy
destroy_message.restype, destroy_message.argtypes = None, [c_void_p]
message_headers = _holding_the_gil.rd_kafka_message_headers
message_headers.restype, message_headers.argtypes = c_int, [c_void_p, POINTER(c_void_p)]

#: The types of the arguments of `produceva` before the headers.
RECORD_ARGUMENTS = (VTYPE_RKT, VTYPE_PARTITION, VTYPE_VALUE, VTYPE_KEY, VTYPE_MSGFLAGS, VTYPE_TIMESTAMP)
ERROR_SIZE = 512


@dataclass(frozen=True)
class DeliveryReport:
    """The report for a batch of records of one partition: its error code, or the offsets of its first and last one."""

    topic: str
    partition: int
    count: int
    code: int
    first: int
    last: int


def kafka_error(code: int) -> KafkaError:
    """The error of a code, with the text of the library."""
    return KafkaError(code, library.err2str(code).decode())


def check(error: int | None) -> None:
    """Raise the error object that a function returned, as the exception of the Python client."""
    if not error:
        return
    failure = KafkaError(
        library.error_code(error),
        library.error_string(error).decode(),
        bool(library.error_is_fatal(error)),
        bool(library.error_is_retriable(error)),
        bool(library.error_txn_requires_abort(error)),
    )
    library.error_destroy(error)
    raise KafkaException(failure)


def check_code(code: int) -> None:
    """Raise the error code that a function returned."""
    if code:
        raise KafkaException(kafka_error(code))


def new_client(kind: int, config: dict[str, Any]) -> int:
    """The handle of a producer or a consumer with these settings. The error names a setting that is not valid."""
    message = ctypes.create_string_buffer(ERROR_SIZE)
    settings = library.conf_new()
    for name, value in config.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if library.conf_set(settings, name.encode(), text.encode(), message, ERROR_SIZE):
            library.conf_destroy(settings)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, message.value.decode()))
    if kind == PRODUCER:
        library.conf_set_events(settings, EVENT_DR)
    handle = library.new(kind, settings, message, ERROR_SIZE)
    if not handle:
        library.conf_destroy(settings)
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, message.value.decode()))
    return int(handle)


def query_watermarks(handle: int, topic: str, partition: int, timeout_ms: int) -> tuple[int, int]:
    """The log start and the high watermark of a partition, from its leader."""
    low, high = ctypes.c_int64(), ctypes.c_int64()
    check_code(
        library.query_watermark_offsets(
            handle, topic.encode(), partition, ctypes.byref(low), ctypes.byref(high), timeout_ms
        )
    )
    return low.value, high.value


def produce_record(
    handle: int,
    topic: int,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    timestamp: int | None,
) -> None:
    """Produce a single record to the topic with this handle. Without a timestamp it is now."""
    arguments = (Argument * (len(RECORD_ARGUMENTS) + len(headers)))()
    for argument, kind in zip(arguments, RECORD_ARGUMENTS, strict=False):
        argument.vtype = kind
    arguments[0].u.rkt = topic
    arguments[1].u.i32 = partition
    arguments[2].u.mem.ptr, arguments[2].u.mem.size = value, len(value or b"")
    arguments[3].u.mem.ptr, arguments[3].u.mem.size = key, len(key or b"")
    arguments[4].u.i = MSG_F_COPY
    arguments[5].u.i64 = timestamp or 0  # 0 is now
    names = [name.encode() for name, _ in headers]
    for argument, name, (_, content) in zip(arguments[len(RECORD_ARGUMENTS) :], names, headers, strict=True):
        argument.vtype = VTYPE_HEADER
        argument.u.header.name, argument.u.header.val = name, content
        argument.u.header.size = 0 if content is None else len(content)
    check(library.produceva(handle, arguments, len(arguments)))


def read_delivery_report(event: int) -> DeliveryReport:
    """The report that an event holds. It has one error, or offsets without a gap."""
    count = library.event_message_count(event)
    array = (POINTER(Message) * count)()
    library.event_message_array(event, array, count)
    first, last = array[0].contents, array[count - 1].contents
    code = first.err or last.err
    if not code and (first.offset < 0 or last.offset - first.offset != count - 1):
        code = KafkaError._INCONSISTENT  # the client repeated the batch, and the broker no longer knew its offset
    return DeliveryReport(
        library.topic_name(first.rkt).decode(), first.partition, count, code, first.offset, last.offset
    )


def fatal_error(handle: int) -> KafkaError | None:
    """The error that made a client unusable, if there is one."""
    message = ctypes.create_string_buffer(ERROR_SIZE)
    code = library.fatal_error(handle, message, ERROR_SIZE)
    return KafkaError(code, message.value.decode(errors="replace")) if code else None


def send_offset_to_transaction(
    handle: int, topic: str, partition: int, offset: int, group: str, timeout_ms: int
) -> None:
    """Make the offset of one partition in a consumer group part of the transaction."""
    offsets = library.topic_partition_list_new(1)
    library.topic_partition_list_add(offsets, topic.encode(), partition).contents.offset = offset
    metadata = library.consumer_group_metadata_new(group.encode())
    try:
        check(library.send_offsets_to_transaction(handle, offsets, metadata, timeout_ms))
    finally:
        library.consumer_group_metadata_destroy(metadata)
        library.topic_partition_list_destroy(offsets)
