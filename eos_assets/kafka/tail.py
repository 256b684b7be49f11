"""A partition in, its last visible records out: read back from the end, past markers and aborted records."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection, ask

PATIENCE_SECONDS = 30
#: The group of readers that join none: brokers want a permission on it all the same.
READER_GROUP = "eos-reader"


class Unread(EosError):
    """A partition that gives no more records, and should. Another attempt may heal it."""


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
        at = TopicPartition(topic, partition)
        low, _ = ask(lambda: consumer.get_watermark_offsets(at, timeout=PATIENCE_SECONDS))
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
    consumer = reader(connection, isolation)
    try:
        at = TopicPartition(topic, partition)
        low, end = ask(lambda: consumer.get_watermark_offsets(at, timeout=PATIENCE_SECONDS))
        end = end if upto is None else min(end, upto)
        position = max(low, start)
        consumer.assign([TopicPartition(topic, partition, position)])
        while position < end:
            message = consumer.poll(PATIENCE_SECONDS)
            if message is None:
                raise Unread(
                    f"{topic}/{partition} could not be read at {position}.", "Check the brokers with `eos doctor`."
                )
            error = message.error()
            if error is None:
                offset = message.offset()
                assert offset is not None
                position = offset + 1
                if offset < end:
                    yield message
            elif error.code() == error._PARTITION_EOF:
                return
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
