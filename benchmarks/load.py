"""Fills a source topic with the records of a workload, each where Kafka's Java client would put it."""

import numpy as np

from benchmarks.workload import Workload
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.kafka.producer import Producer, message_array

#: The records that are generated at a time: for a workload the same in each fill, because random values depend on it.
STEP_ROWS = 10_000
FLUSH_SECONDS = 120


def load(connection: Connection, topic: str, partitions: int, workload: Workload, count: int) -> None:
    producer = Producer(connection.config(enable_idempotence=True, acks="all", linger_ms=20))
    try:
        for first in range(0, count, STEP_ROWS):
            numbers = np.arange(first, min(first + STEP_ROWS, count), dtype=np.int64)
            keys, values = workload.keys_and_values(numbers)
            routes, messages = partitions_of(keys, partitions), message_array(keys, values)
            for partition in range(partitions):
                chosen = messages[routes == partition]
                while not producer.has_room(len(chosen), keys.nbytes + values.nbytes):
                    producer.poll(0.02)
                producer.produce_batch(topic, partition, chosen)
            producer.poll()
        missing = producer.flush(FLUSH_SECONDS)
        if missing or producer.failed:
            raise EosError(f"{topic} could not be filled.", "See the log of the broker.")
    finally:
        producer.close()
