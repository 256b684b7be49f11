"""Walks along each sink partition, where every record meets the map row that names it.

In one pass, and in memory that does not grow with the rows. A plain function of Arrow batches, so it runs in Spark's
tasks as well as in a test.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from eos_assets.sink.router import partitions
from eos_assets.verify.context import NAMED, Case, in_scope, lookup
from eos_assets.verify.observations import TOLD, Tallies, told
from eos_assets.verify.sorted_rows import Flags, Integers, changes, groups, integers, last_group


class SinkJudge:
    """Rows of one sink partition after another, by offset: a record, then the map rows that name it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tallies = Tallies()
        self.sums: dict[tuple[int, int, int, int], list[int]] = {}
        self.last: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.held: pa.RecordBatch | None = None

    def judge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.concat_batches([self.held, batch]) if self.held is not None else batch
            cut = last_group(rows, "topic", "sink_partition", "sink_offset")
            self.held = rows.slice(cut)
            if cut:
                yield from self.places(rows.slice(0, cut))
        if self.held is not None and self.held.num_rows:
            yield from self.places(self.held)
        yield told([*self.tallies.rows(), *self.sum_rows()])

    def places(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        topic, partition, offset = (integers(rows, c) for c in ("topic", "sink_partition", "sink_offset"))
        named = integers(rows, "tag") == NAMED
        first = changes(topic, partition, offset)
        place = np.cumsum(first) - 1
        count = int(place[-1]) + 1
        source_partition, start = integers(rows, "source_partition"), integers(rows, "start")
        inside = named & in_scope(self.case, source_partition, start)
        there = np.bincount(place[~named], minlength=count) > 0
        names = np.bincount(place[inside], minlength=count)
        others = np.bincount(place[named & ~inside], minlength=count) > 0
        faded = self.is_faded(topic[first], partition[first], offset[first])
        mine = ~others & ~(faded & (names == 0))
        where = {
            "topic": [self.case.topics[t] for t in topic[first].tolist()],
            "sink_partition": partition[first],
            "sink_offset": offset[first],
        }
        self.tallies.add("sink_records", there & mine)
        self.tallies.add("none_missing", ~there & (names > 0) & mine, **where)
        self.tallies.add("no_duplicates", names > 1, **where, origins=names)
        unnamed = there & (names == 0) & mine
        if not self.case.shared_sink:
            self.tallies.add("none_invented", unnamed, **where)
        # From here on: each record with the first map row that names it, if one does.
        record = np.full(count, -1)
        record[place[~named]] = np.flatnonzero(~named)
        name = np.full(count, -1)
        name[place[inside][::-1]] = np.flatnonzero(inside)[::-1]
        visible = np.flatnonzero(there & (names > 0) & mine)
        self.tallies.counts["outputs_with_origin"] += len(visible)
        self.origins(rows, record[visible], name[visible])
        shown = np.flatnonzero(there & mine & ((names > 0) | (not self.case.shared_sink)))
        yield from self.content(rows, record[shown], name[shown])

    def is_faded(self, topic: Integers, partition: Integers, offset: Integers) -> Flags:
        old = np.zeros(len(topic), bool)
        for (t, p), last in self.case.faded.items():
            old |= (topic == t) & (partition == p) & (offset <= last)
        return old

    def origins(self, rows: pa.RecordBatch, record: Integers, name: Integers) -> None:
        """Order and sums of the visible records that have an origin."""
        topic, partition, offset = (integers(rows, c)[record] for c in ("topic", "sink_partition", "sink_offset"))
        origin, start, source_offset, sequence = (
            integers(rows, c)[name] for c in ("source_partition", "start", "source_offset", "sequence")
        )
        digest = integers(rows, "digest")[record].view(np.uint64)
        for chosen in groups(topic, partition, origin):
            key = (int(topic[chosen[0]]), int(partition[chosen[0]]), int(origin[chosen[0]]))
            before = self.last.get(key, (-1, -1))
            offsets = np.concatenate([[before[0]], source_offset[chosen]])
            numbers = np.concatenate([[before[1]], sequence[chosen]])
            falls = (np.diff(offsets) < 0) | ((np.diff(offsets) == 0) & (np.diff(numbers) <= 0))
            self.tallies.add(
                "ordered_within_partition",
                falls,
                topic=self.case.topics[key[0]],
                sink_partition=key[1],
                sink_offset=offset[chosen],
                source_partition=key[2],
                source_offset=source_offset[chosen],
                before=offsets[:-1],
            )
            self.last[key] = (int(offsets[-1]), int(numbers[-1]))
            for part in (chosen[g] for g in groups(start[chosen])):
                total = self.sums.setdefault((*key, int(start[part[0]])), [0, 1 << 62, -1, 0])
                total[0] += len(part)
                total[1] = min(total[1], int(offset[part].min()))
                total[2] = max(total[2], int(offset[part].max()))
                total[3] = (total[3] + int(digest[part].sum(dtype=np.uint64))) % 2**64

    def content(self, rows: pa.RecordBatch, record: Integers, name: Integers) -> Iterator[pa.RecordBatch]:
        """What the sinks hold, as far as running the transform again must give it; and what lies in a wrong place."""
        topic, partition = integers(rows, "topic")[record], integers(rows, "sink_partition")[record]
        origin = np.where(name >= 0, integers(rows, "source_partition")[name], -1)
        source_offset = integers(rows, "source_offset")[name]
        compared = len(self.case.counts) + self.case.compares_letters
        again = (topic < compared) & ((name < 0) | (source_offset >= lookup(self.case, origin, "same_code")))
        again &= (name < 0) | (integers(rows, "vanished")[name] != 1)
        for number in range(compared):
            chosen = np.flatnonzero(again & (topic == number))
            if not len(chosen):
                continue
            here = rows.take(pa.array(record[chosen]))
            origins = (origin[chosen], source_offset[chosen], name[chosen] < 0)
            is_sink = number < len(self.case.counts)
            digests = here["digest"] if is_sink else pa.repeat(pa.scalar(0, pa.int64()), len(chosen))
            yield content(self.case.topics[number], here, digests, *origins)
            if is_sink and not self.case.declares_partitions:
                self.places_of_keys(here, number, self.case.counts[number], partition[chosen], origin[chosen])

    def places_of_keys(
        self, rows: pa.RecordBatch, number: int, count: int, partition: Integers, origin: Integers
    ) -> None:
        expected = partitions(rows["key"], None, origin, count)
        unknown = rows["key"].is_null().to_numpy(zero_copy_only=False) & (origin < 0)
        wrong = (expected != partition) & ~unknown
        where = {"sink_partition": partition, "sink_offset": integers(rows, "sink_offset"), "expected": expected}
        self.tallies.add("routed_correctly", wrong, topic=self.case.topics[number], **where)

    def sum_rows(self) -> Iterator[dict[str, Any]]:
        for (topic, partition, origin, start), total in self.sums.items():
            place = (origin, start, self.case.topics[topic], partition)
            yield {"kind": "sum", "text": json.dumps([*place, *total]), "n": 0}


def content(
    topic: str,
    rows: pa.RecordBatch,
    digests: pa.Array,
    source_partition: Integers,
    source_offset: Integers,
    unnamed: Flags,
) -> pa.RecordBatch:
    """Records as they are compared with running the transform again: each takes one away, of the origin that its map
    claims."""
    count = rows.num_rows
    return pa.record_batch(
        [
            pa.repeat("content", count),
            pa.repeat(topic, count),
            rows["sink_partition"],
            digests,
            pa.repeat(pa.scalar(-1, pa.int64()), count),
            rows["sink_offset"],
            pa.array(source_partition.astype(np.int32), mask=unnamed),
            pa.array(source_offset, pa.int64(), mask=unnamed),
        ],
        schema=TOLD,
    )
