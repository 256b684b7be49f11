"""Ports for `eos up` that are free now."""

import random
import socket

#: Below the ephemeral ports, so that no outgoing connection takes one of them.
RANGE = range(12_000, 30_000, 9)


def free_ports() -> dict[str, str]:
    """The settings of `eos up`: six ports for three brokers, and one each for Spark, Dagster and the exporter."""
    kafka = next(first for first in random.sample(RANGE, len(RANGE)) if all(map(is_free, range(first, first + 9))))
    return {
        "EOS_KAFKA_PORT": str(kafka),
        "EOS_SPARK_CONNECT_PORT": str(kafka + 6),
        "EOS_DAGSTER_PORT": str(kafka + 7),
        "EOS_EXPORTER_PORT": str(kafka + 8),
    }


def is_free(port: int) -> bool:
    with socket.socket() as server:
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
