"""The load of the demo, the experiment and the tests: a topic filled with integers, each as key and as value."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from eos_assets.deadlines import Deadline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.kafka.producer import Producer, message_array
from eos_assets.kafka.reader import open_consumer, read_last_records

#: The integers that are hashed at a time.
BATCH_ROWS = 50_000
#: The records that one call passes to the producer, and the bytes of each at most.
PRODUCE_ROWS, RECORD_BYTES = 20_000, 40
#: How long the brokers may acknowledge nothing, for example while one restarts.
DELIVERY_SECONDS = 120
#: How long a topic must be quiet before a fill continues it, and how long to wait for that.
QUIET_SECONDS = 0.5
SETTLE_SECONDS = 30
#: How many of the last records of a partition show whether the topic has grown: some may hash to it as before.
TAIL_RECORDS = 100
DECIMAL = re.compile(rb"0|[1-9]\d{0,18}")
LARGEST = int(np.iinfo(np.int64).max)

Integers = npt.NDArray[np.int64]

#: Called with the number of records acknowledged so far.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Filled:
    """The result of a fill: the topic holds the integers [0, next), and this fill wrote `written` of them."""

    first: int
    next: int
    #: Records that an interrupted fill had left out.
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
    """Append `count` integers to those of earlier fills, none twice and none out of order.

    An interrupted fill may have reached further in one partition than in another. Each partition is in order, so its
    last integer shows what it holds, and what the others lack below the highest integer is completed first.
    """
    partitions = len(connection.partitions(topic))
    sender = Sender(connection, topic, progress)  # first, because a broker takes half a second to assign its id
    try:
        tails = last_integers(connection, topic, partitions)
        refuse_grown(topic, tails)
        last_written = [tail[-1] if tail else -1 for tail in tails]
        first = max(last_written) + 1
        end = first + count
        if end > LARGEST:
            raise EosError(
                f"The integers {first} to {end - 1} do not fit into 64 bits.", "Fill fewer, or another topic."
            )
        size = min(BATCH_ROWS, max(1, int(rate / 10))) if rate else BATCH_ROWS  # ten steps per second are smooth enough
        started = time.monotonic()
        for numbers in batches(min(last_written) + 1, end, size):
            keys = decimal_strings(numbers)
            routes = partitions_of(keys, partitions)
            messages = message_array(keys, keys)
            for partition in range(partitions):
                sender.send(partition, messages[(routes == partition) & (numbers > last_written[partition])])
            if rate:
                sender.wait_until(started + sender.sent / rate)
        sender.finish()
    finally:
        sender.close()
    return Filled(first, end, sender.sent - count, sender.sent, time.monotonic() - started)


def refuse_grown(topic: str, tails: list[list[int]]) -> None:
    """Refuse a topic that has grown: its integers hash to other partitions, so some would be written twice."""
    for partition, tail in enumerate(tails):
        numbers = np.array(tail, np.int64)
        misplaced = numbers[partitions_of(decimal_strings(numbers), len(tails)) != partition]
        if len(misplaced):
            raise EosError(
                f"{topic} had fewer partitions than {len(tails)} when it was filled: {misplaced[-1]} is in "
                f"partition {partition}.",
                "Fill another topic: the last integers of this one no longer show which ones it holds.",
            )


class Sender:
    """An idempotent producer that counts the acknowledged records.

    Records never time out in the producer, because it would leave one out and send those after it. Instead the whole
    fill fails when the brokers have acknowledged nothing for a long time.
    """

    def __init__(self, connection: Connection, topic: str, progress: Progress) -> None:
        self.topic = topic
        self.progress = progress
        self.sent = 0
        self.acknowledged = 0
        self.deadline = Deadline(DELIVERY_SECONDS)
        self.producer = Producer(
            connection.config(
                enable_idempotence=True, acks="all", message_timeout_ms=0, enable_gapless_guarantee=True, linger_ms=20
            )
        )

    def send(self, partition: int, messages: npt.NDArray[np.void]) -> None:
        for low in range(0, len(messages), PRODUCE_ROWS):
            batch = messages[low : low + PRODUCE_ROWS]
            while not self.producer.has_room(len(batch), RECORD_BYTES * len(batch)):
                self.poll(0.02)
            self.producer.produce_batch(self.topic, partition, batch)
            self.sent += len(batch)
            self.poll()

    def poll(self, seconds: float = 0.0) -> None:
        """Receive acknowledgements, for at most this time."""
        self.producer.poll(seconds)
        for error in self.producer.failed.values():
            self.fail(error.str())
        acknowledged = self.sent - len(self.producer)
        if acknowledged != self.acknowledged:
            self.acknowledged = acknowledged
            self.deadline.restart()
            self.progress(acknowledged)
        elif acknowledged == self.sent:
            self.deadline.restart()
        elif self.deadline.passed:
            self.fail(f"the brokers did not answer within {self.deadline.seconds:g} s")

    def fail(self, reason: str) -> NoReturn:
        raise EosError(
            f"Records for {self.topic} were not acknowledged: {reason}.",
            "Check the brokers with `eos doctor`, then fill again: it continues where this fill ended.",
        )

    def wait_until(self, moment: float) -> None:
        """Receive acknowledgements until this moment."""
        while (wait := moment - time.monotonic()) > 0:
            self.poll(min(wait, 0.1))

    def finish(self) -> None:
        """Wait for all acknowledgements."""
        while self.acknowledged < self.sent:
            self.poll(0.05)

    def close(self) -> None:
        """Discard the records that wait. They are the last ones, so no hole is left."""
        self.producer.purge()
        self.producer.close()


def last_integers(connection: Connection, topic: str, partitions: int) -> list[list[int]]:
    """The last integers of each partition, in order."""
    consumer = open_consumer(connection)
    try:
        ends = await_quiet(connection, topic, list(range(partitions)))
        tails = [read_last_records(consumer, topic, p, ends[p], TAIL_RECORDS) for p in range(partitions)]
    finally:
        consumer.close()
    for partition, tail in enumerate(tails):
        if ends[partition] and not tail:
            raise EosError(
                f"Partition {partition} of {topic} is empty but ends at offset {ends[partition]}: its records were "
                "deleted.",
                "Fill another topic: this one no longer shows where the last fill ended.",
            )
    return [[parse_integer(message, topic, partition) for message in tail] for partition, tail in enumerate(tails)]


def await_quiet(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    """Wait until no records arrive, because requests of a killed fill may still be on their way, and return the ends
    of the partitions."""
    deadline = Deadline(SETTLE_SECONDS)
    ends = stable_ends(connection, topic, partitions)
    while any(ends.values()):
        time.sleep(QUIET_SECONDS)
        before, ends = ends, stable_ends(connection, topic, partitions)
        if ends == before:
            break
        if deadline.passed:
            raise EosError(f"Records keep arriving in {topic}.", "Wait until the other fill has ended.")
    return ends


def parse_integer(message: Message, topic: str, partition: int) -> int:
    """The integer of a record as a fill writes it: a decimal string of at most 64 bits, as key and as value."""
    key, value = message.key(), message.value()
    if value is None or not DECIMAL.fullmatch(value) or int(value) > LARGEST:
        content = f"{value!r}"
    elif key != value:
        content = f"{value!r} with the key {key!r}"
    else:
        return int(value)
    raise EosError(
        f"Partition {partition} of {topic} does not end with an integer: {content} at offset {message.offset()}.",
        "Fill another topic: this one holds other data.",
    )


def batches(start: int, end: int, size: int) -> Iterator[Integers]:
    for first in range(start, end, size):
        yield np.arange(first, min(first + size, end), dtype=np.int64)


def decimal_strings(numbers: Integers) -> pa.BinaryArray:
    return to_arrow(numbers).cast(pa.string()).cast(pa.binary())


def to_arrow(numbers: Integers) -> pa.Int64Array:
    """The numbers as Arrow, without a copy, and without importing pandas as `pa.array` does for half a second."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
