"""The history as the checker looks at it: what each reader received, and which transaction wrote each record."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from eos_assets.chaos.history import Fingerprints, History, Offsets
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.reader import PartitionId


@dataclass(frozen=True)
class PartitionLog:
    """Everything that one reader received of one partition, in the order of receipt. It read all of [start, end)."""

    reader: str
    topic: str
    partition: int
    start: int
    end: int
    offsets: Offsets
    records: Fingerprints


@dataclass(frozen=True)
class WrittenPartition:
    """The records that committed transactions wrote to one partition, in the order of their offsets."""

    offsets: Offsets
    #: The indexes of the transactions in the history.
    transactions: Offsets
    #: Three columns: source partition, source offset, sequence.
    origins: Offsets


class IndexedHistory:
    """One history, with what several finders need of it."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.logs = list(join_reads(history))
        self.source_logs = [log for log in self.logs if log.topic == history.source]
        self.output_logs = [log for log in self.logs if log.topic != history.source]
        self.committed_ids = {transaction.id for transaction in history.committed}

    def describe(self, number: int) -> str:
        """A transaction in words."""
        transaction = self.history.committed[number]
        covered = OffsetRange(transaction.id.partition, transaction.id.start, transaction.next)
        return f"the transaction of {covered.describe(self.history.source)}"

    @cached_property
    def covered(self) -> dict[int, list[OffsetRange]]:
        """Source partition → the ranges of its committed transactions, in order."""
        ranges: dict[int, list[OffsetRange]] = defaultdict(list)
        for each in sorted(self.history.committed, key=lambda each: (each.id.partition, each.id.start, each.next)):
            ranges[each.id.partition].append(OffsetRange(each.id.partition, each.id.start, each.next))
        return ranges

    def covers(self, wanted: OffsetRange) -> bool:
        """Whether committed transactions cover all of a range."""
        position = wanted.start
        for each in self.covered.get(wanted.partition, ()):
            if each.start <= position:
                position = max(position, each.end)
        return position >= wanted.end

    @cached_property
    def written(self) -> dict[PartitionId, WrittenPartition]:
        """What committed transactions wrote to each partition."""
        rows: dict[PartitionId, list[Offsets]] = defaultdict(list)
        for number, transaction in enumerate(self.history.committed):
            for output in transaction.outputs:
                columns = np.empty((len(output.offsets), 5), np.int64)
                columns[:, 0], columns[:, 1], columns[:, 2] = output.offsets, number, transaction.id.partition
                columns[:, 3], columns[:, 4] = output.source_offsets, output.sequences
                rows[output.topic, output.partition].append(columns)
        return {partition: written_partition(np.concatenate(parts)) for partition, parts in rows.items()}

    def received(self) -> Iterator[tuple[str, Offsets, Offsets]]:
        """For each reader: of each transaction the number of outputs that it received, and that it read past."""
        for reader, logs in self._by_reader().items():
            received, missed = np.zeros((2, len(self.history.committed)), np.int64)
            for log in logs:
                written = self.written.get((log.topic, log.partition))
                if written is None:
                    continue
                is_received = np.isin(written.offsets, log.offsets)
                is_passed = (written.offsets >= log.start) & (written.offsets < log.end)
                np.add.at(received, written.transactions[is_received], 1)
                np.add.at(missed, written.transactions[is_passed & ~is_received], 1)
            yield reader, received, missed

    def received_origins(self) -> Iterator[tuple[str, str, Offsets]]:
        """For each reader and topic: the origins of the distinct offsets that it received."""
        for reader, logs in self._by_reader().items():
            origins: dict[str, list[Offsets]] = defaultdict(list)
            for log in logs:
                written = self.written.get((log.topic, log.partition))
                if written is not None:
                    origins[log.topic].append(written.origins[np.isin(written.offsets, log.offsets)])
            for topic, parts in origins.items():
                yield reader, topic, np.concatenate(parts)

    def _by_reader(self) -> dict[str, list[PartitionLog]]:
        logs: dict[str, list[PartitionLog]] = defaultdict(list)
        for log in self.output_logs:
            logs[log.reader].append(log)
        return logs


def written_partition(rows: Offsets) -> WrittenPartition:
    ordered = rows[np.argsort(rows[:, 0], kind="stable")]
    return WrittenPartition(ordered[:, 0], ordered[:, 1], ordered[:, 2:])


def join_reads(history: History) -> Iterator[PartitionLog]:
    """The reads of each reader and partition, one after the other."""
    reads = defaultdict(list)
    for read in history.reads:
        reads[read.reader, read.topic, read.partition].append(read)
    for (reader, topic, partition), parts in reads.items():
        yield PartitionLog(
            reader,
            topic,
            partition,
            parts[0].start,
            parts[-1].end,
            join([part.offsets for part in parts], np.int64),
            join([part.records for part in parts], np.uint64),
        )


def join(parts: Iterable[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    """The arrays one after the other; an empty one of this kind without any."""
    return np.concatenate([np.empty(0, kind), *parts])
