"""The maps that name the records of one sink partition, merged in its order."""

from dataclasses import dataclass

import numpy as np

from eos_assets.log import provenance
from eos_assets.verify.sorted_rows import Integers


@dataclass(frozen=True)
class MapMessage:
    """One message of a provenance topic, for the task that reads the sink partition it names."""

    #: The sink offset of its first row.
    first: int
    source_partition: int
    start: int
    in_scope: bool
    value: bytes


@dataclass(frozen=True)
class MapRows:
    """Rows of maps in the order of one sink partition: the records that they name, and their origins."""

    sink_offset: Integers
    source_offset: Integers
    #: The number of the message that a row is from.
    message: Integers

    def sort(self) -> "MapRows":
        return self.take(np.argsort(self.sink_offset, kind="stable"))

    def take(self, rows: Integers | slice) -> "MapRows":
        return MapRows(self.sink_offset[rows], self.source_offset[rows], self.message[rows])

    @staticmethod
    def concatenate(parts: "list[MapRows]") -> "MapRows":
        return MapRows(
            np.concatenate([rows.sink_offset for rows in parts]),
            np.concatenate([rows.source_offset for rows in parts]),
            np.concatenate([rows.message for rows in parts]),
        )


NO_ROWS = MapRows(*(np.zeros(0, np.int64) for _ in range(3)))


class MergedMaps:
    """Merges messages by sink offset. Each is decoded only when the pass gets to it."""

    def __init__(self, messages: list[MapMessage]) -> None:
        self.messages = sorted(messages, key=lambda message: message.first)
        self.decoded = 0
        self.waiting = NO_ROWS

    def upto(self, last: int) -> MapRows:
        """The rows up to this sink offset that were not returned before."""
        parts = [self.waiting]
        while self.decoded < len(self.messages) and self.messages[self.decoded].first <= last:
            rows = provenance.load(self.messages[self.decoded].value)
            number = np.full(len(rows.sink_offsets), self.decoded)
            parts.append(MapRows(rows.sink_offsets, rows.source_offsets, number))
            self.decoded += 1
        merged = MapRows.concatenate(parts).sort() if len(parts) > 1 else self.waiting
        cut = int(np.searchsorted(merged.sink_offset, last, "right"))
        self.waiting = merged.take(slice(cut, None))
        return merged.take(slice(0, cut))
