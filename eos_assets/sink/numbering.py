"""The sequence of each output among the outputs of its source record."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.errors import Code, TaskError
from eos_assets.sink.router import Integers

MAX_SEQUENCE = np.iinfo(np.int32).max


class Numbering:
    """Numbers the rows of one transaction batch. The last origin is remembered, because more of its rows may follow in
    the next Arrow batch."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        #: The number of source records so far.
        self.origins = 0
        self.last_origin = -1
        self._next_sequence = 0
        #: Origin and sequence of the last output.
        self._last_output = (-1, -1)

    def number(self, rows: pa.RecordBatch, offsets: Integers) -> Integers:
        """The sequence of each row: declared by the transform, else its order of arrival."""
        first_rows = np.flatnonzero(np.diff(offsets, prepend=self.last_origin))
        self.origins += len(first_rows)
        declared = "sequence" in rows.schema.names
        sequences = self._declared(rows, offsets) if declared else self._by_arrival(len(offsets), first_rows)
        self.last_origin = int(offsets[-1])
        self._next_sequence = int(sequences[-1]) + 1
        return sequences

    def _by_arrival(self, count: int, first_rows: Integers) -> Integers:
        index = np.arange(count)
        first = np.zeros(count, np.int64)
        first[first_rows] = index[first_rows]
        sequences: Integers = index - np.maximum.accumulate(first)
        continued = int(first_rows[0]) if len(first_rows) else count  # rows of the previous batch's last origin
        sequences[:continued] += self._next_sequence
        return sequences

    def _declared(self, rows: pa.RecordBatch, offsets: Integers) -> Integers:
        if rows["sequence"].null_count:
            offset = int(offsets[rows["sequence"].is_null().to_numpy(zero_copy_only=False)][0])
            raise TaskError(
                Code.INVALID_RESULT,
                f"an output of source offset {offset} of partition {self.partition} has no sequence: return one for "
                "each output",
            )
        declared: Integers = rows["sequence"].to_numpy()
        outside = (declared < 0) | (declared > MAX_SEQUENCE)
        if outside.any():
            row = int(np.argmax(outside))
            raise TaskError(
                Code.INVALID_RESULT,
                f"an output of source offset {offsets[row]} of partition {self.partition} has the sequence "
                f"{declared[row]}: use 0 to {MAX_SEQUENCE}",
            )
        if "skip" in rows.schema.names:  # a skip is not an output and needs no sequence
            outputs = ~pc.fill_null(rows["skip"], False).to_numpy(zero_copy_only=False)
            self._check_unique(offsets[outputs], declared[outputs])
        else:
            self._check_unique(offsets, declared)
        return declared

    def _check_unique(self, offsets: Integers, sequences: Integers) -> None:
        """Rows arrive sorted by their sequence, so each must be higher than the one before it."""
        if not len(offsets):
            return
        origin, sequence = self._last_output
        repeated = (np.diff(offsets, prepend=origin) == 0) & (np.diff(sequences, prepend=sequence) <= 0)
        if repeated.any():
            row = int(np.argmax(repeated))
            raise TaskError(
                Code.INVALID_RESULT,
                f"two outputs of source offset {offsets[row]} of partition {self.partition} have the sequence "
                f"{sequences[row]}: return another one for each",
            )
        self._last_output = (int(offsets[-1]), int(sequences[-1]))
