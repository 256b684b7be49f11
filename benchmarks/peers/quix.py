"""Quix Streams with exactly-once processing: a new application for each run, which ends after a number of outputs.

It runs in a virtual environment of its own, with the packages of `quix.txt`.
"""

import tempfile
from collections.abc import Callable

from confluent_kafka import Consumer
from quixstreams import Application

from benchmarks.peers.protocol import Arguments, Command, serve, transform_of
from benchmarks.peers.transactional_loop import end_offsets


def run(arguments: Arguments, command: Command) -> Callable[[], None]:
    transform = transform_of(command.workload)
    folder = tempfile.TemporaryDirectory()
    application = Application(
        broker_address=arguments["servers"],
        consumer_group=command.id,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=int(arguments["commit.ms"]) / 1000,
        consumer_extra_config=client_settings(arguments, "consumer."),
        producer_extra_config=client_settings(arguments, "producer."),
        state_dir=folder.name,
        auto_create_topics=False,
        loglevel="WARNING",
    )
    source, sink = (
        application.topic(
            name, key_serializer="bytes", value_serializer="bytes", key_deserializer="bytes", value_deserializer="bytes"
        )
        for name in (command.source, command.sink)
    )
    application.dataframe(source).apply(transform).to_topic(sink)
    application.run(count=count_records(arguments["servers"], command.source))
    return folder.cleanup


def client_settings(arguments: Arguments, prefix: str) -> dict[str, str]:
    """The settings of a client, without the one that is an argument of the application."""
    return {name: value for name, value in arguments.with_prefix(prefix).items() if name != "auto.offset.reset"}


def count_records(servers: str, topic: str) -> int:
    """The records of a topic that was filled once, without transactions."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic})
    try:
        return sum(end_offsets(consumer, topic).values())
    finally:
        consumer.close()


if __name__ == "__main__":
    serve(run)
