"""The contents of a topic as digests, and the differences between what a sink holds and what it must hold."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.workload import Workload
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.kafka.range_reader import PartitionRange, read_batches
from eos_assets.log.digest import row_digests

Digests = npt.NDArray[np.int64]
#: Partition → the sorted digests of its records.
Contents = dict[int, Digests]

#: NumPy, Arrow and librdkafka release the interpreter's lock for most of the time.
THREADS = 2


def read_contents(connection: Connection, topic: str) -> Contents:
    """What a reader of committed data sees."""
    ranges = ranges_of(connection, topic)

    def digests(wanted: PartitionRange) -> Digests:
        return joined([row_digests(batch["key"], batch["value"]) for batch in batches_of(connection, wanted)])

    with ThreadPoolExecutor(THREADS) as pool:
        return {each.partition: found for each, found in zip(ranges, pool.map(digests, ranges), strict=True)}


def expected_contents(connection: Connection, source: str, workload: Workload, partitions: int) -> Contents:
    """What the sink must hold, computed from the source."""
    parts: dict[int, list[Digests]] = {partition: [] for partition in range(partitions)}
    for wanted in ranges_of(connection, source):
        for batch in batches_of(connection, wanted):
            for partition, digests in expected_digests(batch["key"], batch["value"], workload, partitions):
                parts[partition].append(digests)
    return {partition: joined(digests) for partition, digests in parts.items()}


def expected_digests(
    keys: pa.Array, values: pa.Array, workload: Workload, partitions: int
) -> Iterator[tuple[int, Digests]]:
    """The digests of the outputs of these records, by the sink partition of their key."""
    digests, routes = row_digests(keys, workload.outputs(values)), partitions_of(keys, partitions)
    for partition in range(partitions):
        yield partition, digests[routes == partition]


def ranges_of(connection: Connection, topic: str) -> list[PartitionRange]:
    return [PartitionRange(topic, p, each.start, each.stable) for p, each in bounds(connection, topic).items()]


def batches_of(connection: Connection, wanted: PartitionRange) -> Iterator[pa.RecordBatch]:
    return read_batches(connection.config(), wanted)


def joined(digests: list[Digests]) -> Digests:
    return np.sort(np.concatenate(digests)) if digests else np.zeros(0, np.int64)


def differences(expected: Contents, actual: Contents, *, duplicates_allowed: bool) -> list[str]:
    """What is wrong with each partition of a sink; empty if it is complete and exact."""
    problems = []
    for partition in sorted({*expected, *actual}):
        wanted, held = (each.get(partition, np.zeros(0, np.int64)) for each in (expected, actual))
        if np.array_equal(wanted, held):
            continue
        missing, invented = len(np.setdiff1d(wanted, held)), len(np.setdiff1d(held, wanted))
        repeated = len(held) - len(np.unique(held))
        if missing or invented or not duplicates_allowed:
            problems.append(
                f"partition {partition}: {missing:,} records missing, {invented:,} invented, {repeated:,} duplicated"
            )
    return problems
