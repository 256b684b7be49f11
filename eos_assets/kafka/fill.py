"""Fills a topic with the integers, key and value alike, by an idempotent producer: none twice, none out of order."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.kafka.producer import Producer, messages_of
from eos_assets.kafka.reader import last_records, reader

BATCH = 50_000
#: How long the brokers may acknowledge nothing, for example while one restarts.
DELIVERY_SECONDS = 120
#: How long a topic must be quiet before a fill goes on with it, and how long to wait for that.
SETTLE_SECONDS = 0.5
SETTLE_PATIENCE_SECONDS = 30
#: Records handed to the producer at a time.
CHUNK = 20_000

#: How many records of each partition tell whether the topic has grown since: a few may hash to the same place.
TAIL = 100
DECIMAL = re.compile(rb"0|[1-9]\d{0,18}")
LARGEST = int(np.iinfo(np.int64).max)

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
    partitions = len(connection.partitions(topic))
    sender = Sender(connection, topic, progress)  # first: it takes half a second until a broker has given it an id
    try:
        tails = last_integers(connection, topic, partitions)
        refuse_grown(topic, tails)
        written_to = [tail[-1] if tail else -1 for tail in tails]
        first = max(written_to) + 1
        end = first + count
        if end > LARGEST:
            raise EosError(
                f"The integers {first} to {end - 1} do not fit into 64 bits.", "Fill fewer, or another topic."
            )
        size = min(BATCH, max(1, int(rate / 10))) if rate else BATCH  # ten steps a second are smooth enough
        begun = time.monotonic()
        for numbers in batches(min(written_to) + 1, end, size):
            keys = decimal_strings(numbers)
            routes = partitions_of(keys, partitions)
            messages = messages_of(keys, keys)
            for partition in range(partitions):
                sender.send(partition, messages[(routes == partition) & (numbers > written_to[partition])])
            if rate:
                sender.pace(begun + sender.sent / rate)
        sender.finish()
    finally:
        sender.close()
    return Filled(first, end, sender.sent - count, sender.sent, time.monotonic() - begun)


def refuse_grown(topic: str, tails: list[list[int]]) -> None:
    """When a topic has grown, its integers hash elsewhere: going on would write some of them a second time."""
    for partition, tail in enumerate(tails):
        numbers = np.array(tail, np.int64)
        astray = numbers[partitions_of(decimal_strings(numbers), len(tails)) != partition]
        if len(astray):
            raise EosError(
                f"{topic} had fewer partitions than {len(tails)} when it was filled: {astray[-1]} is in {partition}.",
                "Fill another topic: which integers are there cannot be told from their last ones any more.",
            )


class Sender:
    """Hands records to an idempotent producer and counts what the brokers acknowledged.

    Records never time out in the producer: one that did would be left out, and those behind it sent. Instead this
    gives up, with all that waits, when the brokers have acknowledged nothing for a long time.
    """

    def __init__(self, connection: Connection, topic: str, progress: Progress) -> None:
        self.topic = topic
        self.progress = progress
        self.sent = 0
        self.acknowledged = 0
        self.last_heard = time.monotonic()
        self.producer = Producer(
            connection.config(
                enable_idempotence=True, acks="all", message_timeout_ms=0, enable_gapless_guarantee=True, linger_ms=20
            )
        )

    def send(self, partition: int, messages: npt.NDArray[np.void]) -> None:
        for low in range(0, len(messages), CHUNK):
            chunk = messages[low : low + CHUNK]
            while not self.producer.has_room(len(chunk), 40 * len(chunk)):
                self.listen(0.02)
            self.producer.produce_batch(self.topic, partition, chunk)
            self.sent += len(chunk)
            self.listen()

    def listen(self, seconds: float = 0.0) -> None:
        """Takes in acknowledgements, for at most so long."""
        self.producer.poll(seconds)
        for error in self.producer.failed.values():
            self.give_up(error.str())
        acknowledged = self.sent - len(self.producer)
        if acknowledged != self.acknowledged:
            self.acknowledged, self.last_heard = acknowledged, time.monotonic()
            self.progress(acknowledged)
        elif acknowledged == self.sent:
            self.last_heard = time.monotonic()
        elif time.monotonic() - self.last_heard > DELIVERY_SECONDS:
            self.give_up("the brokers do not answer")

    def give_up(self, why: str) -> NoReturn:
        raise EosError(
            f"Records for {self.topic} were not acknowledged within {DELIVERY_SECONDS} s: {why}.",
            "Check the brokers with `eos doctor`, then fill again: it continues where this fill ended.",
        )

    def pace(self, due: float) -> None:
        """Waits until that moment."""
        while (wait := due - time.monotonic()) > 0:
            self.listen(min(wait, 0.1))

    def finish(self) -> None:
        """Waits for every acknowledgement. What the brokers do not take is an error, never a guess."""
        while self.acknowledged < self.sent:
            self.listen(0.05)

    def close(self) -> None:
        """Throws away what waits, if anything does: it is a tail, so no hole is left."""
        self.producer.purge()
        self.producer.close()


def last_integers(connection: Connection, topic: str, partitions: int) -> list[list[int]]:
    """The last integers of each partition, in order; none for an empty one."""
    consumer = reader(connection)
    try:
        ends = settled_ends(connection, topic, list(range(partitions)))
        tails = [last_records(consumer, topic, p, ends[p], TAIL) for p in range(partitions)]
    finally:
        consumer.close()
    for partition, tail in enumerate(tails):
        if ends[partition] and not tail:
            raise EosError(
                f"Partition {partition} of {topic} is empty but ends at offset {ends[partition]}: its records were "
                "deleted.",
                "Where the last fill ended cannot be known any more: fill another topic.",
            )
    return [[integer_of(message, topic, partition) for message in tail] for partition, tail in enumerate(tails)]


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


def integer_of(message: Message, topic: str, partition: int) -> int:
    """The integer of a record as a fill writes it: a decimal string of at most 64 bits, key and value alike."""
    key, value = message.key(), message.value()
    if value is None or not DECIMAL.fullmatch(value) or int(value) > LARGEST:
        told = f"{value!r}"
    elif key != value:
        told = f"{value!r} with the key {key!r}"
    else:
        return int(value)
    raise EosError(
        f"Partition {partition} of {topic} ends with no integer: {told} at offset {message.offset()}.",
        "Fill another topic: this one holds other data.",
    )


def batches(start: int, end: int, size: int) -> Iterator[IntegersArray]:
    for first in range(start, end, size):
        yield np.arange(first, min(first + size, end), dtype=np.int64)


def decimal_strings(numbers: IntegersArray) -> pa.BinaryArray:
    return arrow(numbers).cast(pa.string()).cast(pa.binary())


def arrow(numbers: IntegersArray) -> pa.Int64Array:
    """The numbers as Arrow, without a copy and without the half second in which `pa.array` imports pandas."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
