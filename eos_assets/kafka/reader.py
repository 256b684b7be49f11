"""Reads ranges of partitions in order, past transaction markers and aborted records."""

from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from eos_assets.deadlines import Deadline
from eos_assets.errors import Code, EosError
from eos_assets.kafka.connection import SILENCE_MS, Connection
from eos_assets.kafka.retries import retry_transient, retry_with_growing_timeout

#: How long a partition may return nothing.
TIMEOUT_SECONDS = 30
POLL_SECONDS = 0.2
#: The group id of consumers that join no group. Brokers require a permission on it nevertheless.
READER_GROUP = "eos-reader"

#: The settings of a consumer that is assigned partitions, joins no group and commits nothing.
ASSIGNED_CONSUMER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "socket.timeout.ms": SILENCE_MS,
}

#: Topic and partition.
PartitionId = tuple[str, int]


class PartitionUnreadable(EosError):
    """A partition returns no more records before the end of the range. A retry may succeed."""

    code = Code.TOPIC_UNREADABLE

    def __init__(self, topic: str, partition: int, position: int, end: int) -> None:
        super().__init__(
            f"{topic}/{partition} could not be read to offset {end}: nothing arrived from offset {position} "
            f"on within {TIMEOUT_SECONDS} s.",
            "Check the brokers with `eos doctor`.",
        )


def open_consumer(connection: Connection, isolation: str = "read_committed") -> Consumer:
    """A consumer that is assigned partitions, joins no group and commits nothing."""
    return Consumer(
        {
            **connection.config(),
            **ASSIGNED_CONSUMER,
            "group.id": READER_GROUP,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,  # a fetch that waits for more records delays every later one
        }
    )


def watermarks(
    consumer: Consumer, topic: str, partition: int, seconds: float = TIMEOUT_SECONDS, *, new: bool = False
) -> tuple[int, int]:
    """The log start of a partition, and its end for this consumer: with read_committed the last stable offset. A new
    consumer has sent no request before."""
    target = TopicPartition(topic, partition)
    if new:
        return retry_with_growing_timeout(
            lambda timeout: consumer.get_watermark_offsets(target, timeout=timeout), seconds
        )
    return retry_transient(lambda: consumer.get_watermark_offsets(target, timeout=seconds), seconds)


def read_last_record(
    consumer: Consumer, topic: str, partition: int, end: int, low: int | None = None
) -> Message | None:
    """The last record below `end` that is visible to this consumer, if there is one. `low` is the log start."""
    messages = read_last_records(consumer, topic, partition, end, 1, low)
    return messages[0] if messages else None


def read_last_records(
    consumer: Consumer, topic: str, partition: int, end: int, count: int, low: int | None = None
) -> list[Message]:
    """The last `count` records below `end` that are visible to this consumer, or all if there are fewer.

    Many of the last offsets may be markers or aborted records, so the range grows until it holds enough records.
    """
    if low is None:
        low, _ = watermarks(consumer, topic, partition)
    size = 2 * count
    while low < end:
        start = max(low, end - size)
        messages = read_range(consumer, topic, partition, start, end)
        if len(messages) >= count or start == low:
            return messages[-count:]
        size *= 8
    return []


def read_range(
    consumer: Consumer, topic: str, partition: int, start: int, end: int, limit: int | None = None
) -> list[Message]:
    """The visible records of a short range, at most `limit` of them."""
    target = TopicPartition(topic, partition, start)
    consumer.assign([target])
    messages: list[Message] = []
    position, deadline = start, Deadline(TIMEOUT_SECONDS)
    while not deadline.passed:
        message = consumer.poll(POLL_SECONDS)
        if message is not None:
            error = message.error()
            if error is None and (message.offset() or 0) < end:
                messages.append(message)
                if len(messages) == limit:
                    return messages
            elif error is not None and error.code() != error._PARTITION_EOF:
                raise KafkaException(error)
        reached = consumer.position([target])[0].offset
        if reached >= end:
            return messages
        if reached > position:  # also past markers and aborted records, which return no message
            position = reached
            deadline.restart()
    raise PartitionUnreadable(topic, partition, position, end)


def read_partition(
    connection: Connection,
    topic: str,
    partition: int,
    start: int = 0,
    upto: int | None = None,
    isolation: str = "read_committed",
) -> Iterator[Message]:
    """The records of one partition that are visible at this isolation level, from `start` on, in order, in constant
    memory."""
    return read_partitions(connection, {(topic, partition): start}, upto, isolation)


def read_partitions(
    connection: Connection,
    starts: Mapping[PartitionId, int],
    upto: int | Mapping[PartitionId, int] | None = None,
    isolation: str = "read_committed",
    limit: int | None = None,
) -> Iterator[Message]:
    """The records of several partitions that are visible at this isolation level, each partition from its start on, in
    order, at most `limit` of each. One consumer reads all of them, because connecting takes longer than reading a few
    records."""
    if not starts:
        return
    consumer = open_consumer(connection, isolation)
    try:
        ends = assign(consumer, starts, upto)
        left: dict[PartitionId, int | None] = dict.fromkeys(ends, limit)
        while ends:
            message = consumer.poll(TIMEOUT_SECONDS)
            if message is None:
                raise unreadable(consumer, starts, ends)
            error, source = message.error(), (message.topic() or "", message.partition() or 0)
            if error is not None and error.code() != error._PARTITION_EOF:
                raise KafkaException(error)
            offset, end, more = message.offset() or 0, ends.get(source, 0), left.get(source)
            if source in ends and (error is not None or offset + 1 >= end or more == 1):
                del ends[source]
                consumer.incremental_unassign([TopicPartition(*source)])  # else it would also read later records
            if error is None and offset < end:
                left[source] = None if more is None else more - 1
                yield message
    finally:
        consumer.close()


def unreadable(
    consumer: Consumer, starts: Mapping[PartitionId, int], ends: Mapping[PartitionId, int]
) -> PartitionUnreadable:
    """The error for the first partition that has not been read to its end."""
    topic, partition = min(ends)
    position = consumer.position([TopicPartition(topic, partition)])[0].offset
    return PartitionUnreadable(topic, partition, max(position, starts[topic, partition]), ends[topic, partition])


def assign(
    consumer: Consumer, starts: Mapping[PartitionId, int], upto: int | Mapping[PartitionId, int] | None
) -> dict[PartitionId, int]:
    """Assign the partitions that hold offsets at or after their start, and return the end of each."""
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
