"""Fills a topic with the integers, key and value alike, by an idempotent producer: none twice, none out of order."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.routing import partitions_of
from eos_assets.kafka.tail import last_record, reader

BATCH = 50_000
#: How long a record may wait for a broker that is away, for example restarting.
DELIVERY_SECONDS = 120
#: How long a topic must be quiet before a fill goes on with it, and how long to wait for that.
SETTLE_SECONDS = 0.5
SETTLE_PATIENCE_SECONDS = 30
#: librdkafka's queue is bounded, so memory stays flat however many records are written.
QUEUE_MESSAGES = 200_000

IntegersArray = npt.NDArray[np.int64]

#: Called with the number of records acknowledged so far.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Filled:
    """What a fill did: the integers [first, next) are in the topic now, `written` of them by this fill."""

    first: int
    next: int
    completed: int
    written: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        return self.written / self.seconds if self.seconds else 0.0


def fill(
    connection: Connection,
    topic: str,
    count: int,
    *,
    rate: float | None = None,
    progress: Progress = lambda _: None,
) -> Filled:
    """Adds `count` integers behind those that earlier fills wrote.

    An interrupted fill may have reached further in one partition than in another. As each partition is in order,
    its last integer says what it holds; what the others lack below the highest integer is completed first.
    """
    producer = idempotent_producer(connection)
    partitions = len(producer.list_topics(topic).topics[topic].partitions)  # also connects, for a quick first batch
    written_to = last_integers(connection, topic, partitions)
    first = max(written_to) + 1
    end = first + count
    sender = Sender(producer, topic, progress)
    begun = time.monotonic()
    size = min(BATCH, max(1, int(rate / 10))) if rate else BATCH  # ten steps a second are smooth enough
    for numbers in batches(min(written_to) + 1, end, size):
        keys = decimal_strings(numbers)
        routes = partitions_of(keys, partitions)
        for partition in range(partitions):
            chosen = np.flatnonzero((routes == partition) & (numbers > written_to[partition]))
            sender.send(partition, keys.take(arrow(chosen)).to_pylist())
        if rate:
            pace(producer, begun, sender.sent, rate)
    sender.finish()
    seconds = time.monotonic() - begun
    return Filled(first, end, sender.sent - count, sender.sent, seconds)


def idempotent_producer(connection: Connection) -> Producer:
    return Producer(
        connection.config(
            enable_idempotence=True,
            acks="all",
            compression_type="lz4",
            linger_ms=20,
            batch_num_messages=100_000,
            queue_buffering_max_messages=QUEUE_MESSAGES,
            delivery_timeout_ms=DELIVERY_SECONDS * 1000,
            delivery_report_only_error=True,
            enable_gapless_guarantee=True,  # a record that times out takes all later ones with it: no hole is left
        )
    )


class Sender:
    """Hands lists of records to the producer and counts what the brokers acknowledged."""

    def __init__(self, producer: Producer, topic: str, progress: Progress) -> None:
        self.producer = producer
        self.topic = topic
        self.progress = progress
        self.sent = 0
        self.error: KafkaError | None = None

    def send(self, partition: int, texts: list[bytes]) -> None:
        """Waits for room first: meeting a full queue, `produce_batch` would refuse some records and take later ones,
        and the order would be lost."""
        while len(self.producer) + len(texts) > QUEUE_MESSAGES:
            self.producer.poll(0.02)
            self.check()
            self.progress(self.sent - len(self.producer))
        records: list[dict[str, Any]] = [{"key": text, "value": text} for text in texts]
        taken = self.producer.produce_batch(self.topic, records, partition, on_delivery=self.report)
        if taken != len(records):  # the producer gave up: say why, if a report tells it
            self.producer.poll(0.1)
            self.check()
            raise KafkaException(next(record["_error"] for record in records if "_error" in record))
        self.sent += len(records)
        self.producer.poll(0)
        self.check()
        self.progress(self.sent - len(self.producer))

    def report(self, error: KafkaError | None, _: Message) -> None:
        self.error = self.error or error

    def check(self) -> None:
        """A record that was given up is an error: it is no longer in the queue, but nobody acknowledged it."""
        if self.error is not None:
            raise EosError(
                f"Records for {self.topic} were not acknowledged within {DELIVERY_SECONDS} s: {self.error.str()}.",
                "Check the brokers with `eos doctor`, then fill again: it continues where this fill ended.",
            )

    def finish(self) -> None:
        """Waits for every acknowledgement. What the brokers did not take in time is an error, never a guess."""
        deadline = time.monotonic() + DELIVERY_SECONDS + 10
        while len(self.producer) and time.monotonic() < deadline:
            self.producer.flush(0.2)
            self.check()
            self.progress(self.sent - len(self.producer))
        self.check()
        if len(self.producer):
            raise EosError(
                f"{len(self.producer)} records for {self.topic} are not acknowledged after {DELIVERY_SECONDS} s.",
                "Check the brokers with `eos doctor`, then fill again: it continues where this fill ended.",
            )


def last_integers(connection: Connection, topic: str, partitions: int) -> list[int]:
    """The last integer of each partition, -1 for an empty one."""
    consumer = reader(connection)
    try:
        ends = settled_ends(connection, topic, list(range(partitions)))
        return [last_integer(last_record(consumer, topic, p, ends[p]), topic, p, ends[p]) for p in range(partitions)]
    finally:
        consumer.close()


def settled_ends(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    """The ends of the partitions, once two looks agree: requests of a killed fill may still be on their way."""
    deadline = time.monotonic() + SETTLE_PATIENCE_SECONDS
    ends = stable_ends(connection, topic, partitions)
    while any(ends.values()):
        time.sleep(SETTLE_SECONDS)
        later = stable_ends(connection, topic, partitions)
        if later == ends:
            break
        ends = later
        if time.monotonic() > deadline:
            raise EosError(f"Records keep arriving in {topic}.", "Wait until the other fill has ended.")
    return ends


def last_integer(message: Message | None, topic: str, partition: int, end: int) -> int:
    if message is None:
        if end == 0:
            return -1
        raise EosError(
            f"Partition {partition} of {topic} is empty but ends at offset {end}: its records were deleted.",
            "Where the last fill ended cannot be known any more: fill another topic.",
        )
    value = message.value()
    if value is None or not value.isdigit():
        raise EosError(
            f"Partition {partition} of {topic} ends with no integer: {value!r} at offset {message.offset()}.",
            "Fill another topic: this one holds other data.",
        )
    return int(value)


def batches(start: int, end: int, size: int) -> Iterator[IntegersArray]:
    for first in range(start, end, size):
        yield np.arange(first, min(first + size, end), dtype=np.int64)


def decimal_strings(numbers: IntegersArray) -> pa.BinaryArray:
    return arrow(numbers).cast(pa.string()).cast(pa.binary())


def arrow(numbers: IntegersArray) -> pa.Int64Array:
    """The numbers as Arrow, without a copy and without the half second in which `pa.array` imports pandas."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def pace(producer: Producer, begun: float, sent: int, rate: float) -> None:
    """Waits until `sent` records are due at `rate` records a second."""
    while (due := begun + sent / rate - time.monotonic()) > 0:
        producer.poll(min(due, 0.1))
