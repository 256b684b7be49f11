"""Where partitions begin and end, asked until the cluster has settled."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from eos_assets.kafka.connection import Connection, ask
from eos_assets.kafka.tail import READER_GROUP, watermarks

TRY_SECONDS = 3.0
#: An election after the loss of a broker takes some seconds.
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Bounds:
    """One partition: its log start, its last stable offset and its high watermark.

    Behind the last stable offset nothing is decided yet: the first open transaction begins there.
    """

    start: int
    stable: int
    high: int


def bounds(connection: Connection, topic: str, partitions: list[int] | None = None) -> dict[int, Bounds]:
    """The bounds of these partitions, or of all. For a read_committed consumer the high watermark is the last stable
    offset."""
    chosen = connection.partitions(topic) if partitions is None else partitions
    committed = ends(connection, topic, chosen, "read_committed")
    uncommitted = ends(connection, topic, chosen, "read_uncommitted")
    return {p: Bounds(committed[p][0], committed[p][1], max(committed[p][1], uncommitted[p][1])) for p in chosen}


def stable_ends(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    return {p: end for p, (_, end) in ends(connection, topic, partitions, "read_committed").items()}


def await_stable(
    connection: Connection, topics: Iterable[str], needed: dict[tuple[str, int], int], patience: float
) -> dict[str, dict[int, Bounds]]:
    """The bounds of these topics, once they are stable up to what is needed, or when the patience ends."""
    chosen, deadline = list(topics), time.monotonic() + patience
    while True:
        found = {topic: bounds(connection, topic) for topic in chosen}
        covered = all(found[t][p].stable >= end for (t, p), end in needed.items() if t in found)
        if covered or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def ends(connection: Connection, topic: str, partitions: list[int], isolation: str) -> dict[int, tuple[int, int]]:
    """Log start and end of each partition, as a reader of this isolation sees them. A fresh consumer for each try: one
    that remembers a dead leader asks it again and again."""

    def question() -> dict[int, tuple[int, int]]:
        config = connection.config(group_id=READER_GROUP, isolation_level=isolation, enable_auto_commit=False)
        consumer = Consumer(config)
        try:
            return {p: watermarks(consumer, topic, p, TRY_SECONDS, new=not n) for n, p in enumerate(partitions)}
        finally:
            consumer.close()

    return ask(question, PATIENCE_SECONDS) if partitions else {}


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
