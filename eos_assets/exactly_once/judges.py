"""Two judges over sorted rows, in one pass and in memory that does not grow with them.

`SinkJudge` walks along each sink partition, where every record meets the map row that names it. `SourceJudge` walks
along each source partition, where every record meets the map rows that name it as their origin. Both are plain
functions of Arrow batches, so they run in Spark tasks as well as in a test.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eos_assets.exactly_once.invariants import SHOWN
from eos_assets.exactly_once.routes import partitions

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: What judges tell: counted violations and figures (`n` of `kind`, `text` an example), sums of transactions (`kind`
#: "sum", `text` JSON), and the content of the sink (`kind` "content", `text` the topic), to be compared.
TOLD = pa.schema(
    [
        ("kind", pa.string()),
        ("text", pa.string()),
        ("sink_partition", pa.int32()),
        ("digest", pa.int64()),
        ("n", pa.int64()),
        ("sink_offset", pa.int64()),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
    ]
)
TOLD_SCHEMA = (
    "kind string, text string, sink_partition int, digest long, n long, sink_offset long, "
    "source_partition int, source_offset long"
)
#: Of two rows at one place the one that stands for the record itself comes first.
RECORD, NAMED, KEPT = 0, 1, 2


@dataclass(frozen=True)
class Scope:
    """What a proof looks at in one source partition: transactions that start in [start, end), source records from
    `source_start` on, and outputs of the code of today from `same_code` on."""

    start: int
    end: int
    source_start: int
    same_code: int
    #: Where each transaction begins; only for pipelines that drop records.
    transactions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """What the judges must know."""

    scopes: dict[int, Scope]
    #: The topics by their number: the sinks, then the dead letters.
    topics: list[str]
    #: Partitions of each sink.
    counts: list[int]
    #: Topic number and partition → the last offset of what is no longer provable.
    faded: dict[tuple[int, int], int] = field(default_factory=dict)
    shared_sink: bool = False
    declares_partitions: bool = False
    drops: bool = False
    incremental: bool = False
    #: Source records may vanish by compaction: what came of them is still there, and no longer provable.
    source_is_compacted: bool = False


class Tallies:
    """Counts what was found and keeps the first examples of each kind."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = defaultdict(int)
        self.examples: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, wrong: Flags, **columns: Any) -> None:
        """Counts the rows that are wrong; the columns say where."""
        where = np.flatnonzero(wrong)
        self.counts[kind] += len(where)
        for at in where[: SHOWN - len(self.examples[kind])].tolist():
            told = {name: c[at] if isinstance(c, list | np.ndarray) else c for name, c in columns.items()}
            self.examples[kind].append(", ".join(f"{name}={value}" for name, value in told.items()))

    def rows(self) -> Iterator[dict[str, Any]]:
        """A figure has no examples; of a violation the first example carries the count."""
        for kind, count in self.counts.items():
            if count:
                examples = self.examples[kind] or [""]
                yield {"kind": kind, "text": examples[0], "n": count}
                yield from ({"kind": kind, "text": example, "n": 0} for example in examples[1:])


def told(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), TOLD)


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
        sinks = topic < len(self.case.counts)
        again = sinks & ((name < 0) | (source_offset >= lookup(self.case, origin, "same_code")))
        again &= (name < 0) | (integers(rows, "vanished")[name] != 1)
        for number, count in enumerate(self.case.counts):
            chosen = record[again & (topic == number)]
            if len(chosen):
                yield content(self.case.topics[number], rows.take(pa.array(chosen)))
            if not self.case.declares_partitions:
                here = np.flatnonzero((topic == number) & again)
                self.places_of_keys(rows.take(pa.array(record[here])), number, count, partition[here], origin[here])

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


def content(topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Records as they are compared with running the transform again: each takes one away."""
    count = rows.num_rows
    return pa.record_batch(
        [
            pa.repeat("content", count),
            pa.repeat(topic, count),
            rows["sink_partition"],
            rows["digest"],
            pa.repeat(pa.scalar(-1, pa.int64()), count),
            rows["sink_offset"],
            pa.nulls(count, pa.int32()),
            pa.nulls(count, pa.int64()),
        ],
        schema=TOLD,
    )


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


def integers(rows: pa.RecordBatch, column: str) -> Integers:
    """A column as integers, -1 for null."""
    return np.asarray(rows[column].fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def changes(*columns: Integers) -> Flags:
    """Where a row differs from the one before it."""
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
        yield from (np.sort(part) for part in np.split(order, cuts))


def lookup(case: Case, partition: Integers, name: str) -> Integers:
    """An offset of the scope of each row's source partition."""
    values = np.zeros(max(case.scopes, default=-1) + 2, np.int64)
    for p, scope in case.scopes.items():
        values[p] = getattr(scope, name)
    return values[partition]


def in_scope(case: Case, partition: Integers, start: Integers) -> Flags:
    return (start >= lookup(case, partition, "start")) & (start < lookup(case, partition, "end"))
