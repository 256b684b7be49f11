"""Columns of Arrow rows as arrays, and the groups of equal rows in them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def integers(rows: pa.RecordBatch, column: str) -> Integers:
    """A column as integers, -1 for null."""
    return np.asarray(rows[column].fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def changes(*columns: Integers) -> Flags:
    """Whether a row differs from the one before it. The first one does."""
    differs = np.zeros(len(columns[0]), bool)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def last_group(rows: pa.RecordBatch, *columns: str) -> int:
    """Where the last group of equal rows begins: more of it may follow in the next batch."""
    return int(np.flatnonzero(changes(*(integers(rows, c) for c in columns)))[-1]) if rows.num_rows else 0


def groups(*columns: Integers) -> Iterator[Integers]:
    """The indexes of equal rows, in their order."""
    if len(columns[0]):
        order = np.lexsort(columns[::-1])
        cuts = np.flatnonzero(changes(*(c[order] for c in columns)))[1:]
        yield from (np.sort(group) for group in np.split(order, cuts))
