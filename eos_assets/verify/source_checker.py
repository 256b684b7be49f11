"""Walks along each source partition, where every record meets the map rows that name it as their origin.

In one pass, and in memory that does not grow with the rows, as `sink_judge` does.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from eos_assets.verify.context import KEPT, NAMED, RECORD, Case, in_scope, lookup
from eos_assets.verify.observations import Tallies, told
from eos_assets.verify.sorted_rows import Integers, changes, groups, integers, last_group


class SourceJudge:
    """Rows of one source partition after another, by offset: a record, then the map rows of its outputs, or skips."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tallies = Tallies()
        self.held: pa.RecordBatch | None = None
        #: Source partition and start of a transaction → the records in it that the transform drops.
        self.dropped: dict[tuple[int, int], int] = defaultdict(int)
        self.last_output = (-1, -1, -1)

    def judge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.outputs(batch)
            few = self.condensed(batch)
            rows = pa.concat_batches([self.held, few]) if self.held is not None else few
            cut = last_group(rows, "source_partition", "source_offset")
            self.held = rows.slice(cut)
            if cut:
                self.records(rows.slice(0, cut))
        if self.held is not None and self.held.num_rows:
            self.records(self.held)
        sums = ({"kind": "dropped", "text": json.dumps([*at, n]), "n": 0} for at, n in self.dropped.items())
        yield told([*self.tallies.rows(), *sums])

    def outputs(self, rows: pa.RecordBatch) -> None:
        """What is wrong with single outputs: each is compared with the one before it, over batches."""
        partition, offset, start = (integers(rows, c) for c in ("source_partition", "source_offset", "start"))
        named = integers(rows, "tag") == NAMED
        sequence, sink_offset = integers(rows, "sequence"), integers(rows, "sink_offset")
        self.tallies.counts["newer"] += int((named & (start >= lookup(self.case, partition, "end"))).sum())
        if self.case.incremental:  # maps of what was proven do not come again
            again = named & (start < lookup(self.case, partition, "proven")) & (sink_offset >= 0)
            self.tallies.add(
                "no_duplicates", again, source_partition=partition, source_offset=offset, sink_offset=sink_offset
            )
        outputs = named & in_scope(self.case, partition, start) & (sink_offset >= 0)
        if not outputs.any():
            return
        rows_of = {"source_partition": partition[outputs], "source_offset": offset[outputs]}
        numbers = sequence[outputs]
        keys = (*rows_of.values(), numbers)
        twice = ~changes(*keys)
        twice[0] = tuple(int(key[0]) for key in keys) == self.last_output
        self.last_output = (int(keys[0][-1]), int(keys[1][-1]), int(keys[2][-1]))
        self.tallies.add("no_duplicates", twice, **rows_of, sequence=numbers, sink_offset=sink_offset[outputs])
        if self.case.incremental:  # what was proven before does not come again
            self.tallies.add("no_duplicates", offset[outputs] < start[outputs], **rows_of)

    def condensed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """One row of each kind for each source record: one with a million outputs is held like any other."""
        partition, start = integers(rows, "source_partition"), integers(rows, "start")
        scoped = in_scope(self.case, partition, start).astype(np.int64)
        differs = changes(partition, integers(rows, "source_offset"), integers(rows, "tag"), scoped)
        return rows if differs.all() else rows.filter(pa.array(differs))

    def records(self, rows: pa.RecordBatch) -> None:
        partition, offset, start = (integers(rows, c) for c in ("source_partition", "source_offset", "start"))
        tag = integers(rows, "tag")
        inside = (tag == NAMED) & in_scope(self.case, partition, start)
        first = changes(partition, offset)
        record = np.cumsum(first) - 1
        count = int(record[-1]) + 1
        there = np.bincount(record[tag == RECORD], minlength=count) > 0
        names = np.bincount(record[inside], minlength=count) > 0
        where = {"source_partition": partition[first], "source_offset": offset[first]}
        self.tallies.counts["source_records"] += int(there.sum())
        unnamed = there & ~names
        if self.case.drops:
            kept = np.bincount(record[tag == KEPT], minlength=count) > 0
            self.note_dropped(partition[first][there & ~kept], offset[first][there & ~kept])
            unnamed &= kept
        self.tallies.add("none_missing", unnamed, **where)
        retained = offset[first] >= lookup(self.case, partition[first], "source_start")
        vanished = names & ~there & retained
        if self.case.source_is_compacted:
            self.tallies.counts["vanished"] += int(vanished.sum())
        else:
            self.tallies.add("none_invented", vanished, **where)

    def note_dropped(self, partition: Integers, offset: Integers) -> None:
        """Counts dropped records by the transaction that covers them."""
        for chosen in groups(partition):
            source = int(partition[chosen[0]])
            starts = np.array(self.case.scopes[source].transactions, np.int64)
            at, counts = np.unique(np.searchsorted(starts, offset[chosen], "right") - 1, return_counts=True)
            for number, count in zip(at.tolist(), counts.tolist(), strict=True):
                if number >= 0:
                    self.dropped[source, int(starts[number])] += count
