"""Consumers of one partition that fetch records as Arrow arrays."""

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from eos_assets.kafka import _librdkafka as c
from eos_assets.kafka._librdkafka import library
from eos_assets.kafka.headers import headers_of
from eos_assets.kafka.message_memory import NO_TIMESTAMP, Fetched, copy_messages, headers_array, layout_is_known


class PartitionConsumer(Protocol):
    """A consumer that is assigned one partition."""

    def fetch(self, rows: int, seconds: float) -> Fetched:
        """At most this many records, with what arrives in this time."""

    def close(self) -> None: ...


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
    """Fetches the same records with the Python client: ten times slower, and without an assumption about memory."""

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
