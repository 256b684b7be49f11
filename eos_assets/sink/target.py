"""One partition of one topic, and what one transaction writes to it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eos_assets.sink.router import Integers

Rows = tuple[Integers, Integers, Integers]


@dataclass
class Target:
    """One partition of one topic, and what this slice wrote to it, in order."""

    topic: str
    partition: int
    digest: int = 0
    count: int = 0
    #: The messages of its provenance map, so far, and how many records they name.
    maps: list[bytes] = field(default_factory=list)
    mapped: int = 0
    #: Of the records that no map names yet.
    source_offsets: list[Integers] = field(default_factory=list)
    sequences: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def note(self, source_offsets: Integers, sequences: Integers) -> None:
        if source_offsets[0] == source_offsets[-1]:  # of one origin, perhaps a very wide one: one number will do
            source_offsets = np.broadcast_to(source_offsets[:1].copy(), source_offsets.shape)
        self.source_offsets.append(source_offsets)
        self.sequences.append(sequences.astype(np.int32))
        self.count += len(source_offsets)

    def origins(self, rows: range) -> Integers:
        """The source offsets of these records, counted from 0, as far as no map names them yet."""
        known = np.concatenate([np.zeros(0, np.int64), *self.source_offsets])
        return known[max(0, rows.start - self.mapped) : max(0, rows.stop - self.mapped)]

    def take_delivered(self, delivered: Iterable[range], multiple: int) -> Rows | None:
        """Sink offset, source offset and sequence of records that have their offset, each once, in their order: the
        largest multiple of so many that there is. The k-th report belongs to the k-th record."""
        ranges = list(delivered)
        rows = (sum(map(len, ranges)) - self.mapped) // multiple * multiple
        if not rows:
            return None
        sink_offsets = laid_out(ranges, self.mapped, self.mapped + rows)
        source_offsets, sequences = np.concatenate(self.source_offsets), np.concatenate(self.sequences)
        self.source_offsets, self.sequences = [source_offsets[rows:]], [sequences[rows:]]
        self.mapped += rows
        return sink_offsets, source_offsets[:rows], sequences[:rows].astype(np.int64)


def laid_out(ranges: Iterable[range], low: int, high: int) -> Integers:
    """What stands at the places [low, high) if the ranges are laid end to end."""
    found, at = [np.zeros(0, np.int64)], 0
    for offsets in ranges:
        part = offsets[max(0, low - at) : max(0, high - at)]
        found.append(np.arange(part.start, part.stop))
        at += len(offsets)
    return np.concatenate(found)
