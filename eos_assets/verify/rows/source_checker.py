"""Check each source record against the map rows that name it as their origin.

One pass over rows in offset order, in constant memory. It is a plain function of Arrow batches, so it runs in Spark's
tasks as well as in a test.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from eos_assets.verify.observations import ObservationCollector, observation_batch
from eos_assets.verify.scope import KEPT, NAMED, RECORD, ProofScope, count_by_transaction, in_scope, lookup
from eos_assets.verify.sorted_rows import changes, integers, last_group


class SourceChecker:
    """Takes the rows of one source partition after another, by offset: a record, then the map rows of its outputs or
    skips."""

    def __init__(self, scope: ProofScope) -> None:
        self.scope = scope
        self.observed = ObservationCollector()
        self.held: pa.RecordBatch | None = None
        #: Source partition and start of a transaction → the number of its records that the transform drops.
        self.dropped: dict[tuple[int, int], int] = defaultdict(int)
        self.last_output = (-1, -1, -1)

    def check(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the observations, all at the end."""
        for batch in batches:
            self.check_outputs(batch)
            condensed = self.condense(batch)
            rows = pa.concat_batches([self.held, condensed]) if self.held is not None else condensed
            cut = last_group(rows, "source_partition", "source_offset")
            self.held = rows.slice(cut)
            if cut:
                self.check_records(rows.slice(0, cut))
        if self.held is not None and self.held.num_rows:
            self.check_records(self.held)
        dropped = (
            {"kind": "dropped", "text": json.dumps([*transaction, n]), "n": 0}
            for transaction, n in self.dropped.items()
        )
        yield observation_batch([*self.observed.rows(), *dropped])

    def check_outputs(self, rows: pa.RecordBatch) -> None:
        """Check single outputs: each is compared with the one before it, across batches."""
        partition, offset, start = (integers(rows, c) for c in ("source_partition", "source_offset", "start"))
        is_map_row = integers(rows, "tag") == NAMED
        sequence, sink_offset = integers(rows, "sequence"), integers(rows, "sink_offset")
        newer = is_map_row & (start >= lookup(self.scope, partition, "end"))
        self.observed.count("newer", int(newer.sum()))
        if self.scope.incremental:  # a transaction that was proven must not be mapped again
            again = is_map_row & (start < lookup(self.scope, partition, "proven")) & (sink_offset >= 0)
            self.observed.add(
                "no_duplicates", again, source_partition=partition, source_offset=offset, sink_offset=sink_offset
            )
        for (p, replay), offsets in self.scope.replays.items():
            theirs = is_map_row & (partition == p) & (start == replay)
            wrong = theirs & ~np.isin(offset, np.array(sorted(offsets), np.int64))
            self.observed.add("none_invented", wrong, source_partition=partition, source_offset=offset, replay=-start)
        # The checker of the sinks finds an output that was replaced although it is visible.
        current = is_map_row & (integers(rows, "replaced") != 1)
        outputs = current & in_scope(self.scope, partition, start, offset) & (sink_offset >= 0)
        if not outputs.any():
            return
        origin = {"source_partition": partition[outputs], "source_offset": offset[outputs]}
        sequences = sequence[outputs]
        keys = (*origin.values(), sequences)
        repeated = ~changes(*keys)
        repeated[0] = tuple(int(key[0]) for key in keys) == self.last_output
        self.last_output = (int(keys[0][-1]), int(keys[1][-1]), int(keys[2][-1]))
        self.observed.add("no_duplicates", repeated, **origin, sequence=sequences, sink_offset=sink_offset[outputs])
        if self.scope.incremental:  # nor may a new transaction claim an origin that was proven
            self.observed.add("no_duplicates", offset[outputs] < start[outputs], **origin)

    def condense(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Keep one row of each kind per source record, so that one with a million outputs takes no more memory."""
        partition, start = integers(rows, "source_partition"), integers(rows, "start")
        offset = integers(rows, "source_offset")
        covered = in_scope(self.scope, partition, start, offset).astype(np.int64)
        differs = changes(partition, offset, integers(rows, "tag"), covered)
        return rows if differs.all() else rows.filter(pa.array(differs))

    def check_records(self, rows: pa.RecordBatch) -> None:
        """Check complete groups of rows: each source offset with all map rows that name it."""
        partition, offset, start = (integers(rows, c) for c in ("source_partition", "source_offset", "start"))
        tag = integers(rows, "tag")
        covered = (tag == NAMED) & in_scope(self.scope, partition, start, offset)
        first = changes(partition, offset)
        group = np.cumsum(first) - 1
        count = int(group[-1]) + 1
        visible = np.bincount(group[tag == RECORD], minlength=count) > 0
        named = np.bincount(group[covered], minlength=count) > 0
        place = {"source_partition": partition[first], "source_offset": offset[first]}
        self.observed.count("source_records", int(visible.sum()))
        unnamed = visible & ~named
        if self.scope.drops:
            kept = np.bincount(group[tag == KEPT], minlength=count) > 0
            dropped = visible & ~kept
            for transaction, n in count_by_transaction(self.scope, *(column[dropped] for column in place.values())):
                self.dropped[transaction] += n
            unnamed &= kept
        self.observed.add("none_missing", unnamed, **place)
        retained = offset[first] >= lookup(self.scope, partition[first], "source_start")
        vanished = named & ~visible & retained
        if self.scope.source_is_compacted:
            self.observed.count("vanished", int(vanished.sum()))
        else:
            self.observed.add("none_invented", vanished, **place)
