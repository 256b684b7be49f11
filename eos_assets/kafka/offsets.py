"""Ranges of offsets, and requests for offsets: where partitions begin and end, and which offset belongs to a time."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from eos_assets.deadlines import poll_until
from eos_assets.kafka.connection import REQUEST_SECONDS, Connection
from eos_assets.kafka.reader import READER_GROUP, PartitionId
from eos_assets.kafka.retries import retry_transient

POLL_SECONDS = 0.01
#: An election after the loss of a broker takes some seconds.
ELECTION_SECONDS = 60.0
#: The number of ranges that a message names.
NAMED_RANGES = 3

Query = tuple[OffsetSpec, IsolationLevel]
LOG_START: Query = (OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
LAST_STABLE: Query = (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
HIGH_WATERMARK: Query = (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


@dataclass(frozen=True)
class OffsetRange:
    """The offsets [start, end) of one partition of a topic, usually the source."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets. It is not the number of records, because markers and aborted records leave holes."""
        return max(0, self.end - self.start)

    def describe(self, topic: str) -> str:
        """The range in words."""
        last = f" to {self.end - 1}" if self.size > 1 else ""
        return f"{topic}/{self.partition} offset{'s' * (self.size > 1)} {self.start}{last}"


def describe_ranges(topic: str, ranges: Sequence[OffsetRange]) -> str:
    """The first few ranges in words, and the number of the others."""
    others = f" and {len(ranges) - NAMED_RANGES} more partitions" if len(ranges) > NAMED_RANGES else ""
    return ", ".join(each.describe(topic) for each in ranges[:NAMED_RANGES]) + others


@dataclass(frozen=True)
class Bounds:
    """The log start, the last stable offset and the high watermark of one partition.

    The first open transaction begins at the last stable offset. Nothing after it is decided yet.
    """

    start: int
    stable: int
    high: int


def bounds(connection: Connection, topic: str, partitions: list[int] | None = None) -> dict[int, Bounds]:
    """The bounds of these partitions, or of all."""
    chosen = connection.partitions(topic) if partitions is None else partitions
    by_partition = bounds_of(connection, [(topic, p) for p in chosen])
    return {p: by_partition[topic, p] for p in chosen}


def bounds_of(connection: Connection, partitions: Collection[PartitionId]) -> dict[PartitionId, Bounds]:
    """The bounds of partitions of any topics, by one request for each of the three offsets."""
    starts, stable, high = list_offsets(connection, partitions, LOG_START, LAST_STABLE, HIGH_WATERMARK)
    return {each: Bounds(starts[each], stable[each], max(stable[each], high[each])) for each in partitions}


def stable_ends(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    """The last stable offset of these partitions."""
    (ends,) = list_offsets(connection, [(topic, p) for p in partitions], LAST_STABLE)
    return {partition: end for (_, partition), end in ends.items()}


def await_stable(
    connection: Connection, topics: Iterable[str], needed: dict[PartitionId, int], seconds: float
) -> dict[str, dict[int, Bounds]]:
    """Wait until these topics are stable up to the needed offsets, or until the deadline, and return their bounds."""
    partitions = {topic: connection.partitions(topic) for topic in topics}
    wanted = [(topic, p) for topic, chosen in partitions.items() for p in chosen]
    latest: dict[PartitionId, Bounds] = {}

    def is_stable() -> bool:
        latest.update(bounds_of(connection, wanted))
        return all(latest[each].stable >= end for each, end in needed.items() if each in latest)

    poll_until(is_stable, seconds, POLL_SECONDS)
    return {topic: {p: latest[topic, p] for p in chosen} for topic, chosen in partitions.items()}


def list_offsets(
    connection: Connection, partitions: Collection[PartitionId], *queries: Query
) -> list[dict[PartitionId, int]]:
    """One offset of each partition for each query."""
    if not partitions:
        return [{} for _ in queries]

    def request(admin: AdminClient) -> list[dict[PartitionId, int]]:
        responses = [
            admin.list_offsets(
                {TopicPartition(*each): spec for each in partitions},
                isolation_level=level,
                request_timeout=REQUEST_SECONDS,
            )
            for spec, level in queries
        ]
        return [
            {(each.topic, each.partition): require_known(future.result().offset) for each, future in response.items()}
            for response in responses
        ]

    return connection.ask(request, ELECTION_SECONDS)


def require_known(offset: int) -> int:
    """Refuse the offset -1001, which a partition may return without an error while it elects its leader."""
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
    return offset


def offsets_for_times(connection: Connection, topic: str, milliseconds: dict[int, int]) -> dict[int, int]:
    """The first offset of each partition whose record has this timestamp or a later one; its end if there is none."""
    times = [TopicPartition(topic, p, max(0, ms)) for p, ms in milliseconds.items()]

    def request() -> dict[int, int]:
        consumer = Consumer(connection.config(group_id=READER_GROUP, enable_auto_commit=False))
        try:
            return {each.partition: each.offset for each in consumer.offsets_for_times(times, REQUEST_SECONDS)}
        finally:
            consumer.close()

    offsets = retry_transient(request, ELECTION_SECONDS)
    at_end = [p for p, offset in offsets.items() if offset < 0]
    return {**offsets, **(stable_ends(connection, topic, at_end) if at_end else {})}
