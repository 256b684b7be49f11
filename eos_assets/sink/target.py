"""The records of one transaction batch in one partition of a topic, and their provenance map."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eos_assets.sink.router import Integers

#: Sink offset, source offset and sequence of each record.
MapRows = tuple[Integers, Integers, Integers]


@dataclass
class Target:
    """One partition of one topic, and the records that the transaction batch has produced to it so far, in order."""

    topic: str
    partition: int
    digest: int = 0
    count: int = 0
    #: The encoded messages of its provenance map, and the number of records that they name.
    maps: list[bytes] = field(default_factory=list)
    mapped: int = 0
    #: Of the records that no map message names yet.
    source_offsets: list[Integers] = field(default_factory=list)
    sequences: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def add(self, source_offsets: Integers, sequences: Integers) -> None:
        """Note the origins of records that are produced now."""
        if source_offsets[0] == source_offsets[-1]:  # a single origin, perhaps with many outputs: store it once
            source_offsets = np.broadcast_to(source_offsets[:1].copy(), source_offsets.shape)
        self.source_offsets.append(source_offsets)
        self.sequences.append(sequences.astype(np.int32))
        self.count += len(source_offsets)

    def origins(self, records: range) -> Integers:
        """The source offsets of these records, by their index, without those that a map message names already."""
        unmapped = np.concatenate([np.zeros(0, np.int64), *self.source_offsets])
        return unmapped[max(0, records.start - self.mapped) : max(0, records.stop - self.mapped)]

    def take_delivered(self, delivered: Iterable[range], multiple: int) -> MapRows | None:
        """The map rows of records whose sink offset is known: each record once, in order, and as many as the largest
        multiple. The k-th delivery report belongs to the k-th record."""
        ranges = list(delivered)
        rows = (sum(map(len, ranges)) - self.mapped) // multiple * multiple
        if not rows:
            return None
        sink_offsets = concatenate_slice(ranges, self.mapped, self.mapped + rows)
        source_offsets, sequences = np.concatenate(self.source_offsets), np.concatenate(self.sequences)
        self.source_offsets, self.sequences = [source_offsets[rows:]], [sequences[rows:]]
        self.mapped += rows
        return sink_offsets, source_offsets[:rows], sequences[:rows].astype(np.int64)


def concatenate_slice(ranges: Iterable[range], low: int, high: int) -> Integers:
    """The elements [low, high) of the concatenated ranges."""
    arrays, begin = [np.zeros(0, np.int64)], 0
    for offsets in ranges:
        chosen = offsets[max(0, low - begin) : max(0, high - begin)]
        arrays.append(np.arange(chosen.start, chosen.stop))
        begin += len(offsets)
    return np.concatenate(arrays)
