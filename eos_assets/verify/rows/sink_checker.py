"""Check each record of a sink partition against the map row that names it.

One pass over rows in offset order, in constant memory. It is a plain function of Arrow batches, so it runs in Spark's
tasks as well as in a test.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from eos_assets.verify.observations import OBSERVATIONS, ObservationCollector, observation_batch
from eos_assets.verify.scope import NAMED, ProofScope, expected_partitions, in_scope, is_among, lookup
from eos_assets.verify.sorted_rows import Flags, Integers, changes, groups, integers, last_group


class SinkChecker:
    """Takes the rows of one sink partition after another, by offset: a record, then the map rows that name it."""

    def __init__(self, scope: ProofScope) -> None:
        self.scope = scope
        self.observed = ObservationCollector()
        #: Topic, sink partition, source partition, start of a transaction → count, first, last, digest.
        self.sums: dict[tuple[int, int, int, int], list[int]] = {}
        #: Topic, sink partition, source partition, minus the number of the repair → source offset and sequence of the
        #: last record.
        self.last: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        self.held: pa.RecordBatch | None = None

    def check(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the observations: content while it is read, everything else at the end."""
        for batch in batches:
            rows = pa.concat_batches([self.held, batch]) if self.held is not None else batch
            cut = last_group(rows, "topic", "sink_partition", "sink_offset")
            self.held = rows.slice(cut)
            if cut:
                yield from self.check_records(rows.slice(0, cut))
        if self.held is not None and self.held.num_rows:
            yield from self.check_records(self.held)
        yield observation_batch([*self.observed.rows(), *self.sum_rows()])

    def check_records(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Check complete groups of rows: each sink offset with all map rows that name it."""
        topic, partition, offset = (integers(rows, c) for c in ("topic", "sink_partition", "sink_offset"))
        is_map_row = integers(rows, "tag") == NAMED
        first = changes(topic, partition, offset)
        group = np.cumsum(first) - 1
        count = int(group[-1]) + 1
        source_partition, start, source_offset = (
            integers(rows, c) for c in ("source_partition", "start", "source_offset")
        )
        covered = is_map_row & in_scope(self.scope, source_partition, start, source_offset)
        replaced = covered & (integers(rows, "replaced") == 1)
        visible = np.bincount(group[~is_map_row], minlength=count) > 0
        names = np.bincount(group[covered], minlength=count)
        names_current = np.bincount(group[covered & ~replaced], minlength=count)
        named_by_others = np.bincount(group[is_map_row & ~covered], minlength=count) > 0
        expired = self.is_expired(topic[first], partition[first], offset[first])
        checked = ~named_by_others & ~(expired & (names == 0))
        place = {
            "topic": [self.scope.topics[t] for t in topic[first].tolist()],
            "sink_partition": partition[first],
            "sink_offset": offset[first],
        }
        self.observed.add("sink_records", visible & checked)
        self.observed.add("none_missing", ~visible & (names_current > 0) & checked, **place)
        self.observed.add("no_duplicates", names > 1, **place, origins=names)
        self.observed.add("no_duplicates", visible & (names > names_current), **place, repaired=1)
        self.extend_sums(rows, np.flatnonzero(replaced & ~visible[group]))
        if not self.scope.shared_sink:
            self.observed.add("none_invented", visible & (names == 0) & checked, **place)
        # From here on: each record with the first map row that names it, if there is one.
        record, map_row = first_rows(group, ~is_map_row, count), first_rows(group, covered, count)
        with_origin = np.flatnonzero(visible & (names > 0) & checked)
        self.observed.count("outputs_with_origin", len(with_origin))
        self.check_order(rows, record[with_origin], map_row[with_origin])
        compared = np.flatnonzero(visible & checked & ((names > 0) | (not self.scope.shared_sink)))
        yield from self.content(rows, record[compared], map_row[compared])

    def is_expired(self, topic: Integers, partition: Integers, offset: Integers) -> Flags:
        """Whether a record may be of a transaction that is no longer provable."""
        expired = np.zeros(len(topic), bool)
        for (t, p), last in self.scope.expired.items():
            expired |= (topic == t) & (partition == p) & (offset <= last)
        return expired

    def check_order(self, rows: pa.RecordBatch, record: Integers, map_row: Integers) -> None:
        """Check that origins rise with the sink offset, and add up the records by transaction."""
        topic, partition, offset = (integers(rows, c)[record] for c in ("topic", "sink_partition", "sink_offset"))
        source_partition, start, source_offset, sequence = (
            integers(rows, c)[map_row] for c in ("source_partition", "start", "source_offset", "sequence")
        )
        digest = integers(rows, "digest")[record].view(np.uint64)
        repair = np.minimum(start, 0)  # its records follow later ones; among themselves they are in order
        for chosen in groups(topic, partition, source_partition, repair):
            key = (int(topic[chosen[0]]), int(partition[chosen[0]]), int(source_partition[chosen[0]]))
            order = (*key, int(repair[chosen[0]]))
            last_offset, last_sequence = self.last.get(order, (-1, -1))
            offsets = np.concatenate([[last_offset], source_offset[chosen]])
            sequences = np.concatenate([[last_sequence], sequence[chosen]])
            falls = (np.diff(offsets) < 0) | ((np.diff(offsets) == 0) & (np.diff(sequences) <= 0))
            self.observed.add(
                "ordered_within_partition",
                falls,
                topic=self.scope.topics[key[0]],
                sink_partition=key[1],
                sink_offset=offset[chosen],
                source_partition=key[2],
                source_offset=source_offset[chosen],
                before=offsets[:-1],
            )
            self.last[order] = (int(offsets[-1]), int(sequences[-1]))
            for part in (chosen[g] for g in groups(start[chosen])):
                self.add_to_sum((*key, int(start[part[0]])), offset[part], digest[part])

    def add_to_sum(self, transaction: tuple[int, int, int, int], offset: Integers, digest: np.ndarray) -> None:
        total = self.sums.setdefault(transaction, [0, 1 << 62, -1, 0])
        total[0] += len(offset)
        total[1] = min(total[1], int(offset.min()))
        total[2] = max(total[2], int(offset.max()))
        total[3] = (total[3] + int(digest.sum(dtype=np.uint64))) % 2**64

    def extend_sums(self, rows: pa.RecordBatch, lost: Integers) -> None:
        """Extend the offsets of transactions by outputs that were lost and repaired: their entries count those."""
        columns = ("topic", "sink_partition", "source_partition", "start", "sink_offset")
        for *transaction, offset in zip(*(integers(rows, c)[lost].tolist() for c in columns), strict=True):
            total = self.sums.setdefault(tuple(transaction), [0, 1 << 62, -1, 0])
            total[1], total[2] = min(total[1], offset), max(total[2], offset)

    def content(self, rows: pa.RecordBatch, record: Integers, map_row: Integers) -> Iterator[pa.RecordBatch]:
        """Yield the content of the sinks that running the transform again must give, and check its partitions."""
        topic, partition = integers(rows, "topic")[record], integers(rows, "sink_partition")[record]
        unnamed = map_row < 0
        source_partition = np.where(unnamed, -1, integers(rows, "source_partition")[map_row])
        source_offset = integers(rows, "source_offset")[map_row]
        sinks = len(self.scope.sink_partitions)
        compared = unnamed | (source_offset >= lookup(self.scope, source_partition, "recompute_start"))
        # Instead of its dead letter, a replayed record has what the code of its replay gives.
        replayed = is_among(self.scope.replayed, source_partition, source_offset)
        again = is_among(self.scope.replayed_again, source_partition, source_offset) & (topic < sinks)
        compared = np.where(replayed, again, compared)
        compared &= unnamed | (integers(rows, "vanished")[map_row] != 1)
        for number in range(sinks + self.scope.compares_dead_letters):
            chosen = np.flatnonzero(compared & (topic == number))
            if not len(chosen):
                continue
            records = rows.take(pa.array(record[chosen]))
            origins = (source_partition[chosen], source_offset[chosen], unnamed[chosen])
            is_sink = number < sinks
            # A dead letter is compared by its origin alone.
            digests = records["digest"] if is_sink else pa.repeat(pa.scalar(0, pa.int64()), len(chosen))
            yield content_batch(self.scope.topics[number], records, digests, *origins)
            if is_sink and not self.scope.declares_partitions:
                self.check_routing(records, number, partition[chosen], source_partition[chosen])

    def check_routing(
        self, records: pa.RecordBatch, number: int, partition: Integers, source_partition: Integers
    ) -> None:
        """Check that each record is in the partition of its key."""
        count = self.scope.sink_partitions[number]
        expected = expected_partitions(records["key"], None, source_partition, count)
        unknown = records["key"].is_null().to_numpy(zero_copy_only=False) & (source_partition < 0)
        self.observed.add(
            "routed_correctly",
            (expected != partition) & ~unknown,
            topic=self.scope.topics[number],
            sink_partition=partition,
            sink_offset=integers(records, "sink_offset"),
            expected=expected,
        )

    def sum_rows(self) -> Iterator[dict[str, Any]]:
        """One row per transaction and sink partition: the figures that the ledger must have."""
        for (topic, partition, source_partition, start), total in self.sums.items():
            place = (source_partition, start, self.scope.topics[topic], partition)
            yield {"kind": "sum", "text": json.dumps([*place, *total]), "n": 0}


def first_rows(group: Integers, chosen: Flags, count: int) -> Integers:
    """The first chosen row of each group, -1 where there is none."""
    first = np.full(count, -1)
    first[group[chosen][::-1]] = np.flatnonzero(chosen)[::-1]
    return first


def content_batch(
    topic: str,
    records: pa.RecordBatch,
    digests: pa.Array,
    source_partition: Integers,
    source_offset: Integers,
    unnamed: Flags,
) -> pa.RecordBatch:
    """Records as they are compared with running the transform again: each counts as -1 of its content, under the origin
    that its map row claims."""
    count = records.num_rows
    return pa.record_batch(
        [
            pa.repeat("content", count),
            pa.repeat(topic, count),
            records["sink_partition"],
            digests,
            pa.repeat(pa.scalar(-1, pa.int64()), count),
            records["sink_offset"],
            pa.array(source_partition.astype(np.int32), mask=unnamed),
            pa.array(source_offset, pa.int64(), mask=unnamed),
        ],
        schema=OBSERVATIONS,
    )
