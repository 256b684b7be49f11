"""Rows in the order of their origins in, the number of each among the rows of its origin out."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.errors import Code, TaskError
from eos_assets.sink.router import Integers


class Numbering:
    """The sequences of one slice; it remembers the last origin, of which more rows may follow in the next batch."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        #: How many source records have given rows so far.
        self.origins = 0
        self.last_origin = -1
        self._next_sequence = 0
        #: Origin and sequence of the last row that is written.
        self._last_written = (-1, -1)

    def number(self, rows: pa.RecordBatch, offsets: Integers) -> Integers:
        """The sequence of each row: given by the transform, else the order of arrival."""
        begins = np.flatnonzero(np.diff(offsets, prepend=self.last_origin))
        self.origins += len(begins)
        given = "sequence" in rows.schema.names
        sequences = self.given(rows, offsets) if given else self.by_arrival(len(offsets), begins)
        self.last_origin = int(offsets[-1])
        self._next_sequence = int(sequences[-1]) + 1
        return sequences

    def by_arrival(self, count: int, begins: Integers) -> Integers:
        index = np.arange(count)
        first = np.zeros(count, np.int64)
        first[begins] = index[begins]
        sequences: Integers = index - np.maximum.accumulate(first)
        before = int(begins[0]) if len(begins) else count  # so many rows belong to the origin of the last batch
        sequences[:before] += self._next_sequence
        return sequences

    def given(self, rows: pa.RecordBatch, offsets: Integers) -> Integers:
        """They come sorted; each output of one record needs a number of its own."""
        if rows["sequence"].null_count:
            at = int(offsets[rows["sequence"].is_null().to_numpy(zero_copy_only=False)][0])
            raise TaskError(
                Code.INVALID_RESULT, f"an output of source offset {at} of partition {self.partition} has no sequence"
            )
        given: Integers = rows["sequence"].to_numpy()
        if given.min() < 0 or given.max() > np.iinfo(np.int32).max:
            raise TaskError(
                Code.INVALID_RESULT, f"a sequence in partition {self.partition} is negative or larger than 32 bits hold"
            )
        if "skip" in rows.schema.names:  # a skip is no output, and needs no number
            written = ~pc.fill_null(rows["skip"], False).to_numpy(zero_copy_only=False)
            self.check_unique(offsets[written], given[written])
        else:
            self.check_unique(offsets, given)
        return given

    def check_unique(self, offsets: Integers, given: Integers) -> None:
        if not len(offsets):
            return
        origin, sequence = self._last_written
        repeated = (np.diff(offsets, prepend=origin) == 0) & (np.diff(given, prepend=sequence) <= 0)
        if repeated.any():
            at = int(np.argmax(repeated))
            raise TaskError(
                Code.INVALID_RESULT,
                f"two outputs of source offset {offsets[at]} of partition {self.partition} have the sequence "
                f"{given[at]}: give each one a number of its own",
            )
        self._last_written = (int(offsets[-1]), int(given[-1]))
