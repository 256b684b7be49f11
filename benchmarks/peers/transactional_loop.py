"""A plain loop of confluent-kafka: consume, transform, produce, and commit a transaction with the offsets."""

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from benchmarks.peers.protocol import Arguments, Command, serve, transform_of

CONSUME_ROWS = 10_000
CONSUME_SECONDS = 0.1
TIMEOUT_SECONDS = 60.0


def run(arguments: Arguments, command: Command) -> Callable[[], None]:
    servers = {"bootstrap.servers": arguments["servers"]}
    consumer = Consumer(
        {**servers, **arguments.with_prefix("consumer."), "group.id": command.id, "enable.auto.commit": False}
    )
    producer = Producer({**servers, **arguments.with_prefix("producer."), "transactional.id": command.id})
    producer.init_transactions(TIMEOUT_SECONDS)
    ends = end_offsets(consumer, command.source)
    consumer.subscribe([command.source])
    transform, seconds = transform_of(command.workload), int(arguments["commit.ms"]) / 1000
    positions: dict[int, int] = {}
    while positions != ends:
        producer.begin_transaction()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and positions != ends:
            for message in consumer.consume(CONSUME_ROWS, CONSUME_SECONDS):
                refuse_error(message)
                produce(producer, command.sink, message.key(), transform(message.value() or b""))
                positions[message.partition() or 0] = (message.offset() or 0) + 1
            producer.poll(0)
        offsets = [TopicPartition(command.source, partition, offset) for partition, offset in positions.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_SECONDS)
        producer.commit_transaction(TIMEOUT_SECONDS)
    return consumer.close


def produce(producer: Producer, topic: str, key: bytes | None, value: bytes) -> None:
    """Produce one record. A full queue is emptied by delivery reports."""
    while True:
        try:
            producer.produce(topic, value, key)
            return
        except BufferError:
            producer.poll(0.01)


def refuse_error(message: Message) -> None:
    error = message.error()
    if error is not None:
        raise KafkaException(error)


def end_offsets(consumer: Consumer, topic: str) -> dict[int, int]:
    """Partition → the end of what a reader of committed data sees; without empty partitions."""
    partitions = consumer.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), TIMEOUT_SECONDS)[1] for p in partitions}
    return {partition: end for partition, end in ends.items() if end}


if __name__ == "__main__":
    serve(run)
