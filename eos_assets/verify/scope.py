"""The window of a proof as plain data for the tasks: the topics, transactions and records that it covers."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eos_assets.kafka.partitioner import partitions_of
from eos_assets.verify.sorted_rows import Flags, Integers

#: The tag of a row. Of two rows at one offset the record itself comes first.
RECORD, NAMED, KEPT = 0, 1, 2


@dataclass(frozen=True)
class PartitionScope:
    """What a proof covers in one source partition: transactions that start in [start, end), source records from
    `source_start` on, and outputs that running the transform again must give from `recompute_start` on."""

    start: int
    end: int
    source_start: int
    recompute_start: int
    #: The position at the last proof.
    proven: int = 0
    #: The start of each transaction; only for pipelines that drop records.
    transactions: tuple[int, ...] = ()


@dataclass(frozen=True)
class ProofScope:
    """What one proof covers, and what it can compare."""

    #: Source partition → what is covered of it.
    partitions: dict[int, PartitionScope]
    #: The topics by their number: the sinks, then the dead letters.
    topics: list[str]
    #: The number of partitions of each sink.
    sink_partitions: list[int]
    #: Topic number and partition → the last offset of a transaction that is no longer provable.
    expired: dict[tuple[int, int], int] = field(default_factory=dict)
    shared_sink: bool = False
    declares_partitions: bool = False
    drops: bool = False
    #: Running the transform again must give the same dead letters.
    compares_dead_letters: bool = False
    incremental: bool = False
    #: Compaction may remove source records; their outputs remain and are no longer provable.
    source_is_compacted: bool = False
    #: Source partition and offset of each replayed dead letter, and of those that today's code replayed.
    replayed: frozenset[tuple[int, int]] = frozenset()
    replayed_again: frozenset[tuple[int, int]] = frozenset()
    #: Source partition and `start` of the maps of each replay → the source offsets that its ledger entry names.
    replays: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)


def lookup(scope: ProofScope, partition: Integers, name: str) -> Integers:
    """An offset of the scope of each row's source partition."""
    highest = max([*scope.partitions, int(partition.max(initial=-1))], default=-1)
    values = np.zeros(highest + 2, np.int64)  # the last one is for rows without a partition, -1
    for p, covered in scope.partitions.items():
        values[p] = getattr(covered, name)
    return values[partition]


def in_scope(scope: ProofScope, partition: Integers, start: Integers, source_offset: Integers) -> Flags:
    """Whether the proof covers the transaction of each row; of a repair, the transaction that it repairs."""
    place = np.where(start < 0, source_offset, start)
    return (place >= lookup(scope, partition, "start")) & (place < lookup(scope, partition, "end"))


def is_among(origins: Collection[tuple[int, int]], partition: Integers, offset: Integers) -> Flags:
    """Whether the origin of each row is one of these."""
    found = np.zeros(len(offset), bool)
    for p in {p for p, _ in origins}:
        offsets = np.array([offset for number, offset in origins if number == p], np.int64)
        found |= (partition == p) & np.isin(offset, offsets)
    return found


def count_by_transaction(
    scope: ProofScope, partition: Integers, offset: Integers
) -> Iterator[tuple[tuple[int, int], int]]:
    """The number of source records in each transaction that covers some of them, by source partition and start."""
    for p in np.unique(partition).tolist():
        starts = np.array(scope.partitions[p].transactions, np.int64)
        covering = np.searchsorted(starts, offset[partition == p], "right") - 1
        for number, count in zip(*np.unique(covering, return_counts=True), strict=True):
            if number >= 0:
                yield (p, int(starts[number])), int(count)


def expected_partitions(keys: pa.Array, declared: pa.Array | None, source_partition: Integers, count: int) -> Integers:
    """The partition that the transform declares, else the one that Kafka's Java client chooses for the key. A record
    without a key goes by its source partition. The sink has its own implementation, which shares only Kafka's hash, so
    an error in its routing is found."""
    expected = np.asarray(source_partition, np.int64) % count
    has_key = keys.is_valid().to_numpy(zero_copy_only=False)
    if has_key.any():
        expected[has_key] = partitions_of(keys.drop_null(), count)
    if declared is not None:
        is_declared = declared.is_valid().to_numpy(zero_copy_only=False)
        expected[is_declared] = declared.drop_null().to_numpy()
    return expected
