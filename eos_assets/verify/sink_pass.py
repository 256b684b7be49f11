"""One pass along each sink partition in offset order, beside the maps that name its records.

Nothing is sorted or shuffled: Spark reads a partition in order, and the maps of each source partition are in the same
order. A plain function of Arrow batches, so that it runs in Spark's tasks as well as in a test.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eos_assets.log import provenance
from eos_assets.sink.router import partitions
from eos_assets.verify.context import Case, lookup
from eos_assets.verify.map_reader import MapPart
from eos_assets.verify.sorted_rows import Integers, changes, integers
from eos_assets.verify.totals import NOTHING, Total, hash_rows, total
from eos_assets.worker_path import leave_archives

#: What a pass returns: rows of a kind with a JSON text.
PASS_SCHEMA = "kind string, text string"
Place = tuple[int, int]


@dataclass(frozen=True)
class MapRows:
    """Rows of maps in the order of one sink partition: the records that they name, and where those came from."""

    sink_offset: Integers
    source_offset: Integers
    #: The number of the part that a row is from.
    part: Integers

    def sorted(self) -> "MapRows":
        return self.take(np.argsort(self.sink_offset, kind="stable"))

    def take(self, rows: Integers | slice) -> "MapRows":
        return MapRows(self.sink_offset[rows], self.source_offset[rows], self.part[rows])

    @staticmethod
    def concatenated(some: "list[MapRows]") -> "MapRows":
        return MapRows(
            np.concatenate([one.sink_offset for one in some]),
            np.concatenate([one.source_offset for one in some]),
            np.concatenate([one.part for one in some]),
        )


NO_ROWS = MapRows(*(np.zeros(0, np.int64) for _ in range(3)))


class MergedMaps:
    """The maps of one sink partition, merged in its order. Messages are decoded when the pass gets to them."""

    def __init__(self, parts: list[MapPart]) -> None:
        self.parts = sorted(parts, key=lambda part: part.first)
        self.decoded = 0
        self.waiting = NO_ROWS

    def upto(self, last: int) -> MapRows:
        """The rows up to this sink offset that were not returned before."""
        fresh = [self.waiting]
        while self.decoded < len(self.parts) and self.parts[self.decoded].first <= last:
            one = provenance.load(self.parts[self.decoded].value)
            fresh.append(MapRows(one.sink_offsets, one.source_offsets, np.full(len(one.sink_offsets), self.decoded)))
            self.decoded += 1
        rows = MapRows.concatenated(fresh).sorted() if len(fresh) > 1 else self.waiting
        cut = int(np.searchsorted(rows.sink_offset, last, "right"))
        self.waiting = rows.take(slice(cut, None))
        return rows.take(slice(0, cut))


@dataclass
class SinkTotals:
    """What a pass has counted."""

    records: int = 0
    named: int = 0
    content: Total = NOTHING
    #: Topic, partition, source partition, start of a transaction → count, first, last, digest.
    transactions: dict[tuple[int, int, int, int], list[int]] = field(default_factory=dict)


class SinkPass:
    """Records of sink partitions, each partition in offset order."""

    def __init__(self, case: Case, parts: dict[Place, list[MapPart]]) -> None:
        self.case = case
        self.parts = parts
        self.merged: dict[Place, MergedMaps] = {}
        self.totals = SinkTotals()
        self.wrong = ""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        leave_archives()
        for rows in (rows for batch in batches for rows in by_place(batch)):
            self.wrong = self.check(rows)
            if self.wrong:
                break  # every row will be compared
        yield self.result()

    def check(self, rows: pa.RecordBatch) -> str:
        """What is wrong with these records of one partition; empty if nothing is."""
        topic, partition = int(rows["topic"][0].as_py()), int(rows["sink_partition"][0].as_py())
        offsets = integers(rows, "sink_offset")
        place = (topic, partition)
        merged = self.merged.setdefault(place, MergedMaps(self.parts.get(place, [])))
        names = merged.upto(int(offsets[-1]))
        inside = np.array([part.in_scope for part in merged.parts], bool)[names.part]
        others = names.sink_offset[~inside]
        names = names.take(np.flatnonzero(inside)) if len(others) else names
        if not (np.diff(names.sink_offset) > 0).all():
            return "a record that two rows of the maps name"
        if len(np.intersect1d(others, names.sink_offset)):
            return "a record that two transactions name"
        at = np.searchsorted(offsets, names.sink_offset)
        if len(at) and (at[-1] >= len(offsets) or not np.array_equal(offsets[at], names.sink_offset)):
            return "a row of the maps without a visible record"
        if len(at) < len(offsets) and (wrong := self.check_unnamed(place, offsets, at, others)):
            return wrong
        self.totals.named += len(at)
        return self.add(place, rows if len(at) == len(offsets) else rows.take(pa.array(at)), names, merged.parts)

    def check_unnamed(self, place: Place, offsets: Integers, named: Integers, others: Integers) -> str:
        """Records that no map of this window names: of other transactions, no longer provable, or of other writers."""
        rest = np.delete(offsets, named)
        rest = rest[~np.isin(rest, others) & (rest > self.case.faded.get(place, -1))]
        if len(rest) and not self.case.shared_sink:
            return "a record that no map names"
        self.totals.records += len(rest)
        return ""

    def add(self, place: Place, rows: pa.RecordBatch, names: MapRows, parts: list[MapPart]) -> str:
        """Adds up the named records, by transaction and in all."""
        topic, partition = place
        self.totals.records += rows.num_rows
        if not rows.num_rows:
            return ""
        source = np.array([part.source_partition for part in parts], np.int64)[names.part]
        start = np.array([part.start for part in parts], np.int64)[names.part]
        digests = integers(rows, "digest")
        self.add_transactions(place, source, start, names.sink_offset, digests.view(np.uint64))
        is_sink = topic < len(self.case.counts)
        if not is_sink and not self.case.compares_letters:
            return ""
        today = np.flatnonzero(names.source_offset >= lookup(self.case, source, "same_code"))
        if len(today) < rows.num_rows:
            rows, source = rows.take(pa.array(today)), source[today]
            names, digests = names.take(today), digests[today]
        if is_sink and not self.case.declares_partitions:
            expected = partitions(rows["key"], None, source, self.case.counts[topic])
            if (expected != partition).any():
                return "a record in another partition than that of its key"
        content = digests if is_sink else np.zeros(rows.num_rows, np.int64)
        self.totals.content += content_total(self.case, content, names.source_offset, source, topic, partition)
        return ""

    def add_transactions(
        self, place: Place, source: Integers, start: Integers, offset: Integers, digest: np.ndarray
    ) -> None:
        order = np.lexsort((start, source))
        source, start, offset, digest = source[order], start[order], offset[order], digest[order]
        firsts = np.flatnonzero(changes(source, start))
        counts = np.diff([*firsts, len(source)])
        sums = np.add.reduceat(digest, firsts)
        lows, highs = np.minimum.reduceat(offset, firsts), np.maximum.reduceat(offset, firsts)
        for number, first in enumerate(firsts.tolist()):
            key = (*place, int(source[first]), int(start[first]))
            known = self.totals.transactions.setdefault(key, [0, 1 << 62, -1, 0])
            known[0] += int(counts[number])
            known[1] = min(known[1], int(lows[number]))
            known[2] = max(known[2], int(highs[number]))
            known[3] = (known[3] + int(sums[number])) % 2**64

    def result(self) -> pa.RecordBatch:
        totals = self.totals
        rows = [("sink", [self.wrong, totals.records, totals.named, totals.content.n, totals.content.sum])]
        for (topic, partition, source, start), sums in totals.transactions.items():
            rows.append(("sum", [source, start, self.case.topics[topic], partition, *sums]))
        kinds, texts = zip(*((kind, json.dumps(content)) for kind, content in rows), strict=True)
        return pa.record_batch({"kind": pa.array(kinds), "text": pa.array(texts)})


def by_place(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The records of each partition in a batch."""
    cuts = np.flatnonzero(changes(integers(batch, "topic"), integers(batch, "sink_partition"))).tolist()
    for low, high in itertools.pairwise([*cuts, batch.num_rows]):
        yield batch.slice(low, high - low)


def content_total(
    case: Case,
    digests: Integers,
    offsets: Integers,
    sources: Integers,
    topic: Integers | int,
    partition: Integers | int,
) -> Total:
    """Records by content, origin and topic; by partition, too, where the transform declares it."""
    place = (topic, partition) if case.declares_partitions else (topic,)
    return total(hash_rows(digests, offsets, sources, *place))
