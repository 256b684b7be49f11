"""A partition in, its last visible record out: read back from the end, past markers and aborted records."""

import time

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection, ask

PATIENCE_SECONDS = 30


def reader(connection: Connection, isolation: str = "read_committed") -> Consumer:
    """A consumer that is assigned partitions, joins no group and commits nothing."""
    return Consumer(
        connection.config(
            group_id="eos-reader",
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",
            isolation_level=isolation,
            enable_partition_eof=True,
            fetch_wait_max_ms=10,  # a fetch that waits for more records holds back every later one
        )
    )


def stable_ends(connection: Connection, topic: str, partitions: list[int]) -> dict[int, int]:
    """The last stable offset of each partition: nothing at or behind it is decided yet.

    A fresh client for each try: one that remembers the leaders of yesterday is fenced off again and again. While a
    leader is away the answer may be a negative offset and no error at all.
    """

    def question() -> dict[int, int]:
        admin = AdminClient(connection.config())
        wanted = {TopicPartition(topic, p): OffsetSpec.latest() for p in partitions}
        level = IsolationLevel.READ_COMMITTED
        futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=2)
        ends = {tp.partition: future.result().offset for tp, future in futures.items()}
        if min(ends.values()) < 0:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return ends

    return ask(question)


def last_record(consumer: Consumer, topic: str, partition: int, end: int) -> Message | None:
    """The last record below `end` that this consumer may see, or None if there is none.

    The last offset may be a marker or an aborted record, so the step back doubles until a record shows up.
    """
    low, _ = ask(lambda: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_SECONDS))
    step = 2
    while low < end:
        start = max(low, end - step)
        last = None
        for message in records(consumer, topic, partition, start, end):
            last = message
        if last is not None or start == low:
            return last
        step *= 8
    return None


def records(consumer: Consumer, topic: str, partition: int, start: int, end: int) -> list[Message]:
    """The visible records of [start, end), for short ranges."""
    at = TopicPartition(topic, partition, start)
    consumer.assign([at])
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            error = message.error()
            if error is None and (message.offset() or 0) < end:
                found.append(message)
            elif error is not None and error.code() != error._PARTITION_EOF:
                raise KafkaException(error)
        position = consumer.position([at])[0].offset
        if position >= end:
            return found
    raise EosError(
        f"Partition {partition} of {topic} could not be read to offset {end} within {PATIENCE_SECONDS} s.",
        "Check the brokers with `eos doctor`.",
    )
