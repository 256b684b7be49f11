"""A partition in, its last visible records out: read back from the end, past markers and aborted records."""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from eos_assets.errors import Code, EosError
from eos_assets.kafka.connection import Connection, ask, ask_shortly

PATIENCE_SECONDS = 30
#: The group of readers that join none: brokers want a permission on it all the same.
READER_GROUP = "eos-reader"


class Unread(EosError):
    """A partition that gives no more records, and should. Another attempt may heal it."""

    code = Code.TOPIC_UNREADABLE


def reader(connection: Connection, isolation: str = "read_committed") -> Consumer:
    """A consumer that is assigned partitions, joins no group and commits nothing."""
    return Consumer(
        connection.config(
            group_id=READER_GROUP,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",
            isolation_level=isolation,
            enable_partition_eof=True,
            fetch_wait_max_ms=10,  # a fetch that waits for more records holds back every later one
        )
    )


def watermarks(
    consumer: Consumer, topic: str, partition: int, patience: float = PATIENCE_SECONDS, *, new: bool = False
) -> tuple[int, int]:
    """Where a partition begins, and where it ends for this consumer: if it reads what is committed, at the last stable
    offset. A new consumer has asked no broker before."""
    at = TopicPartition(topic, partition)
    if new:
        return ask_shortly(lambda limit: consumer.get_watermark_offsets(at, timeout=limit), patience)
    return ask(lambda: consumer.get_watermark_offsets(at, timeout=patience), patience)


def last_record(consumer: Consumer, topic: str, partition: int, end: int, low: int | None = None) -> Message | None:
    """The last record below `end` that this consumer may see, or None if there is none. `low` is the log start."""
    found = last_records(consumer, topic, partition, end, 1, low)
    return found[0] if found else None


def last_records(
    consumer: Consumer, topic: str, partition: int, end: int, count: int, low: int | None = None
) -> list[Message]:
    """The last `count` records below `end` that this consumer may see; fewer only if there are no more.

    Many of the last offsets may be markers or aborted records, so the step back grows until enough records show up.
    """
    if low is None:
        low, _ = watermarks(consumer, topic, partition)
    step = 2 * count
    while low < end:
        start = max(low, end - step)
        found = records(consumer, topic, partition, start, end)
        if len(found) >= count or start == low:
            return found[-count:]
        step *= 8
    return []


def records(
    consumer: Consumer, topic: str, partition: int, start: int, end: int, limit: int | None = None
) -> list[Message]:
    """The visible records of [start, end), for short ranges; no more than `limit` of them."""
    at = TopicPartition(topic, partition, start)
    consumer.assign([at])
    found: list[Message] = []
    reached, deadline = start, time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            error = message.error()
            if error is None and (message.offset() or 0) < end:
                found.append(message)
                if len(found) == limit:
                    return found
            elif error is not None and error.code() != error._PARTITION_EOF:
                raise KafkaException(error)
        position = consumer.position([at])[0].offset
        if position >= end:
            return found
        if position > reached:  # a long way over markers and aborted records is no standstill
            reached, deadline = position, time.monotonic() + PATIENCE_SECONDS
    raise Unread(
        f"Partition {partition} of {topic} could not be read to offset {end}: it stands still at {reached}.",
        "Check the brokers with `eos doctor`.",
    )


def stream(
    connection: Connection,
    topic: str,
    partition: int,
    start: int = 0,
    upto: int | None = None,
    isolation: str = "read_committed",
) -> Iterator[Message]:
    """The committed records of one partition from `start` on, in order, in constant memory."""
    return streams(connection, {(topic, partition): start}, upto, isolation)


def streams(
    connection: Connection,
    starts: Mapping[tuple[str, int], int],
    upto: int | Mapping[tuple[str, int], int] | None = None,
    isolation: str = "read_committed",
    limit: int | None = None,
) -> Iterator[Message]:
    """The committed records of some partitions, each from its start on, in order within each; no more than `limit` of a
    partition. One consumer reads all of them: connecting takes longer than reading a few records."""
    if not starts:
        return
    consumer = reader(connection, isolation)
    try:
        ends = assign(consumer, starts, upto)
        left: dict[tuple[str, int], int | None] = dict.fromkeys(ends, limit)
        while ends:
            message = consumer.poll(PATIENCE_SECONDS)
            if message is None:
                raise unread(consumer, *min(ends))
            error, place = message.error(), (message.topic() or "", message.partition() or 0)
            if error is not None and error.code() != error._PARTITION_EOF:
                raise KafkaException(error)
            offset, end, more = message.offset() or 0, ends.get(place, 0), left.get(place)
            if place in ends and (error is not None or offset + 1 >= end or more == 1):
                del ends[place]
                consumer.incremental_unassign([TopicPartition(*place)])  # else it would go on to read what grows there
            if error is None and offset < end:
                left[place] = None if more is None else more - 1
                yield message
    finally:
        consumer.close()


def unread(consumer: Consumer, topic: str, partition: int) -> Unread:
    position = consumer.position([TopicPartition(topic, partition)])[0].offset
    told = "" if position < 0 else f" at {position}"
    return Unread(f"{topic}/{partition} could not be read{told}.", "Check the brokers with `eos doctor`.")


def assign(
    consumer: Consumer, starts: Mapping[tuple[str, int], int], upto: int | Mapping[tuple[str, int], int] | None
) -> dict[tuple[str, int], int]:
    """Assigns the partitions that hold something behind their start, and returns where each of them ends."""
    ends, assigned = {}, []
    for number, ((topic, partition), start) in enumerate(starts.items()):
        low, end = watermarks(consumer, topic, partition, new=not number)
        limit = upto.get((topic, partition)) if isinstance(upto, Mapping) else upto
        end = end if limit is None else min(end, limit)
        if max(low, start) < end:
            ends[topic, partition] = end
            assigned.append(TopicPartition(topic, partition, max(low, start)))
    consumer.assign(assigned)
    return ends
