"""Ports for `eos up` that nobody uses now."""

import socket


def free_ports() -> dict[str, str]:
    """The settings of `eos up`: two ports in a row for Kafka, one for Spark and one for Dagster."""
    while True:
        with socket.socket() as one, socket.socket() as two, socket.socket() as three, socket.socket() as four:
            for each in (one, three, four):
                each.bind(("127.0.0.1", 0))
            kafka = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", kafka + 1))
            except (OSError, OverflowError):
                continue
            return {
                "EOS_KAFKA_PORT": str(kafka),
                "EOS_SPARK_CONNECT_PORT": str(three.getsockname()[1]),
                "EOS_DAGSTER_PORT": str(four.getsockname()[1]),
            }
