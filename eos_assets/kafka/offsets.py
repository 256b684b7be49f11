"""Where partitions begin and end, asked until the cluster has settled."""

import itertools
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from eos_assets.kafka.connection import Connection, ask
from eos_assets.kafka.reader import READER_GROUP

TRY_SECONDS = 3.0
POLL_SECONDS = 0.01
#: An election after the loss of a broker takes some seconds.
PATIENCE_SECONDS = 60.0

Place = tuple[str, int]
Wanted = tuple[OffsetSpec, IsolationLevel]
EARLIEST: Wanted = (OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
STABLE: Wanted = (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
HIGH: Wanted = (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


@dataclass(frozen=True)
class Bounds:
    """One partition: its log start, its last stable offset and its high watermark.

    Behind the last stable offset nothing is decided yet: the first open transaction begins there.
    """

    start: int
    stable: int
    high: int


def bounds(connection: Connection, topic: str, partitions: list[int] | None = None) -> dict[int, Bounds]:
    """The bounds of these partitions, or of all."""
    chosen = connection.partitions(topic) if partitions is None else partitions
    found = bounds_of(connection, [(topic, p) for p in chosen])
    return {p: found[topic, p] for p in chosen}


def bounds_of(connection: Connection, places: Collection[Place]) -> dict[Place, Bounds]:
    """The bounds of partitions of any topics, in one request each for the beginning and the two ends."""
    starts, stable, high = list_offsets(connection, places, EARLIEST, STABLE, HIGH)
    return {place: Bounds(starts[place], stable[place], max(stable[place], high[place])) for place in places}


def stable_ends(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    (found,) = list_offsets(connection, [(topic, p) for p in partitions], STABLE)
    return {partition: end for (_, partition), end in found.items()}


def await_stable(
    connection: Connection, topics: Iterable[str], needed: dict[Place, int], patience: float
) -> dict[str, dict[int, Bounds]]:
    """The bounds of these topics, once they are stable up to what is needed, or when the patience ends."""
    partitions = {topic: connection.partitions(topic) for topic in topics}
    places = [(topic, p) for topic, chosen in partitions.items() for p in chosen]
    deadline = time.monotonic() + patience
    while True:
        found = bounds_of(connection, places)
        covered = all(found[place].stable >= end for place, end in needed.items() if place in found)
        if covered or time.monotonic() > deadline:
            return {topic: {p: found[topic, p] for p in chosen} for topic, chosen in partitions.items()}
        time.sleep(POLL_SECONDS)


def list_offsets(connection: Connection, places: Collection[Place], *wanted: Wanted) -> list[dict[Place, int]]:
    """One offset of each partition for each of what is wanted. After a failure with a new client: one that remembers a
    dead leader may ask it again and again."""
    if not places:
        return [{} for _ in wanted]
    clients = itertools.chain([connection.admin], (AdminClient(connection.config()) for _ in itertools.repeat(None)))

    def question() -> list[dict[Place, int]]:
        admin = next(clients)
        asked = [
            admin.list_offsets(
                {TopicPartition(*place): spec for place in places}, isolation_level=level, request_timeout=TRY_SECONDS
            )
            for spec, level in wanted
        ]
        return [
            {(at.topic, at.partition): known(future.result().offset) for at, future in one.items()} for one in asked
        ]

    return ask(question, PATIENCE_SECONDS)


def known(offset: int) -> int:
    """While a partition elects its leader the answer may be -1001, without an error."""
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
    return offset


def offsets_at(connection: Connection, topic: str, milliseconds: dict[int, int]) -> dict[int, int]:
    """The first offset of each partition that was written at or after a moment; its end if there is none."""
    wanted = [TopicPartition(topic, p, max(0, ms)) for p, ms in milliseconds.items()]

    def question() -> dict[int, int]:
        consumer = Consumer(connection.config(group_id=READER_GROUP, enable_auto_commit=False))
        try:
            found = consumer.offsets_for_times(wanted, TRY_SECONDS)
        finally:
            consumer.close()
        return {at.partition: at.offset for at in found}

    found = ask(question, PATIENCE_SECONDS)
    late = [p for p, offset in found.items() if offset < 0]
    return {**found, **(stable_ends(connection, topic, late) if late else {})}
