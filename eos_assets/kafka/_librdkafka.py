"""The C functions of librdkafka that the Python client does not offer, called in the very library it brings along.

confluent-kafka makes a Python object for every record and every delivery report. A batch of records is an array to the
C library, and so it is here; see docs/decisions/0004. Only what the library's public header promises is used.
"""

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException, cimpl

PRODUCER = 0
MSG_F_COPY = 0x2
EVENT_DR = 0x1
PURGE_QUEUE, PURGE_INFLIGHT = 0x1, 0x2

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
    """rd_kafka_message_t, to read a single one."""

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
    """The functions, without their `rd_kafka_`. Each call lets other Python threads run."""

    def __init__(self) -> None:
        loaded = ctypes.CDLL(cimpl.__file__)  # symbols are looked up in what it is linked to, too
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(loaded, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # only for the type checker: the constructor sets all of them

    def check(self, error: int | None) -> None:
        """Raises what a function returned as its error, in the words of the Python client."""
        if not error:
            return
        failure = KafkaError(
            self.error_code(error),
            self.error_string(error).decode(),
            bool(self.error_is_fatal(error)),
            bool(self.error_is_retriable(error)),
            bool(self.error_txn_requires_abort(error)),
        )
        self.error_destroy(error)
        raise KafkaException(failure)


library = Library()
