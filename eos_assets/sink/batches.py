"""Arrow batches in, the pieces out that a writer takes: of one source partition, and short enough for a slice."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from eos_assets.errors import Code, TaskError


def by_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Pieces of one source partition each, in order."""
    for batch in batches:
        if any(batch[name].null_count for name in ("o_partition", "o_offset", "o_ordinal")):
            raise TaskError(Code.ROW_WITHOUT_ORIGIN, "a row of the result has no origin")
        partitions = batch["o_partition"].to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        for low, high in itertools.pairwise(cuts):
            if high > low:
                yield int(partitions[low]), batch.slice(low, high - low)


def cut(pieces: Iterable[pa.RecordBatch], origins: int) -> Iterator[pa.RecordBatch]:
    """Pieces of at most so many origins each: between two of them a slice may end."""
    for piece in pieces:
        begins = np.flatnonzero(np.diff(piece["o_offset"].to_numpy())) + 1
        for low, high in itertools.pairwise([0, *begins[origins - 1 :: origins].tolist(), piece.num_rows]):
            yield piece.slice(low, high - low)
