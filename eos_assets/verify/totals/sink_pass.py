"""Add up the records of each sink partition with the maps that name them, and source records and recomputed outputs
where Spark's SQL cannot do it.

Nothing is sorted or shuffled: Spark reads a partition in offset order, and the maps of each source partition are in
the same order. These are plain functions of Arrow batches, so they run in Spark's tasks as well as in a test.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eos_assets.verify.scope import ProofScope, count_by_transaction, expected_partitions, lookup
from eos_assets.verify.sorted_rows import Integers, changes, integers
from eos_assets.verify.totals.map_reader import MapMessage, MapRows, MergedMaps
from eos_assets.verify.totals.total import NOTHING, PassResult, Total, hash_rows, result_batch, total
from eos_assets.worker import prepare_worker

#: Topic number and partition.
Place = tuple[int, int]


@dataclass
class SinkTotals:
    """What a pass has counted."""

    records: int = 0
    named: int = 0
    content: Total = NOTHING
    #: Topic, partition, source partition, start of a transaction → count, first, last, digest.
    transactions: dict[tuple[int, int, int, int], list[int]] = field(default_factory=dict)


class SinkPass:
    """Adds up the records of sink partitions, each in offset order, and stops at the first violation."""

    def __init__(self, scope: ProofScope, messages: dict[Place, list[MapMessage]]) -> None:
        self.scope = scope
        self.messages = messages
        self.maps: dict[Place, MergedMaps] = {}
        self.totals = SinkTotals()
        self.violation = ""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for records in (records for batch in batches for records in split_by_place(batch)):
            self.violation = self.add(records)
            if self.violation:
                break  # every row will be compared
        yield self.result()

    def add(self, records: pa.RecordBatch) -> str:
        """Add up records of one partition; return what is wrong with them, or an empty text."""
        place = (int(records["topic"][0].as_py()), int(records["sink_partition"][0].as_py()))
        offsets = integers(records, "sink_offset")
        maps = self.maps.setdefault(place, MergedMaps(self.messages.get(place, [])))
        rows = maps.upto(int(offsets[-1]))
        covered = np.array([message.in_scope for message in maps.messages], bool)[rows.message]
        others = rows.sink_offset[~covered]
        rows = rows.take(np.flatnonzero(covered)) if len(others) else rows
        if not (np.diff(rows.sink_offset) > 0).all():
            return "a record that two rows of the maps name"
        if len(np.intersect1d(others, rows.sink_offset)):
            return "a record that two transactions name"
        named = np.searchsorted(offsets, rows.sink_offset)
        if len(named) and (named[-1] >= len(offsets) or not np.array_equal(offsets[named], rows.sink_offset)):
            return "a row of the maps without a visible record"
        if len(named) < len(offsets) and (violation := self.add_unnamed(place, offsets, named, others)):
            return violation
        self.totals.named += len(named)
        chosen = records if len(named) == len(offsets) else records.take(pa.array(named))
        return self.add_named(place, chosen, rows, maps.messages)

    def add_unnamed(self, place: Place, offsets: Integers, named: Integers, others: Integers) -> str:
        """Count records that no map of this window names: of other transactions, no longer provable, or foreign."""
        unnamed = np.delete(offsets, named)
        unnamed = unnamed[~np.isin(unnamed, others) & (unnamed > self.scope.expired.get(place, -1))]
        if len(unnamed) and not self.scope.shared_sink:
            return "a record that no map names"
        self.totals.records += len(unnamed)
        return ""

    def add_named(self, place: Place, records: pa.RecordBatch, rows: MapRows, messages: list[MapMessage]) -> str:
        """Add up the named records, by transaction and in total."""
        topic, partition = place
        self.totals.records += records.num_rows
        if not records.num_rows:
            return ""
        source = np.array([message.source_partition for message in messages], np.int64)[rows.message]
        start = np.array([message.start for message in messages], np.int64)[rows.message]
        digests = integers(records, "digest")
        self.add_transactions(place, source, start, rows.sink_offset, digests.view(np.uint64))
        is_sink = topic < len(self.scope.sink_partitions)
        if not is_sink and not self.scope.compares_dead_letters:
            return ""
        compared = np.flatnonzero(rows.source_offset >= lookup(self.scope, source, "recompute_start"))
        if len(compared) < records.num_rows:
            records, source = records.take(pa.array(compared)), source[compared]
            rows, digests = rows.take(compared), digests[compared]
        if is_sink and not self.scope.declares_partitions:
            expected = expected_partitions(records["key"], None, source, self.scope.sink_partitions[topic])
            if (expected != partition).any():
                return "a record in another partition than that of its key"
        content = digests if is_sink else np.zeros(records.num_rows, np.int64)
        self.totals.content += content_total(self.scope, content, rows.source_offset, source, topic, partition)
        return ""

    def add_transactions(
        self, place: Place, source: Integers, start: Integers, offset: Integers, digest: np.ndarray
    ) -> None:
        """Add up count, first and last offset and digest of each transaction."""
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
        sink = ("sink", [self.violation, totals.records, totals.named, totals.content.n, totals.content.sum])
        sums = (
            ("sum", [source, start, self.scope.topics[topic], partition, *figures])
            for (topic, partition, source, start), figures in totals.transactions.items()
        )
        return result_batch([sink, *sums])


def split_by_place(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The records of each partition in a batch."""
    cuts = np.flatnonzero(changes(integers(batch, "topic"), integers(batch, "sink_partition"))).tolist()
    for low, high in itertools.pairwise([*cuts, batch.num_rows]):
        yield batch.slice(low, high - low)


def content_total(
    scope: ProofScope,
    digests: Integers,
    offsets: Integers,
    sources: Integers,
    topic: Integers | int,
    partition: Integers | int,
) -> Total:
    """The total of records by content, origin and topic; by partition, too, where the transform declares it."""
    place = (topic, partition) if scope.declares_partitions else (topic,)
    return total(hash_rows(digests, offsets, sources, *place))


class VisibleTotals:
    """Adds up source records, in total and by the transaction that covers each."""

    def __init__(self, scope: ProofScope) -> None:
        self.scope = scope
        self.everything = NOTHING
        self.counts = defaultdict[tuple[int, int], int](int)

    def add(self, partition: Integers, offset: Integers) -> None:
        self.everything += total(hash_rows(offset, partition))
        if self.scope.drops:
            for transaction, n in count_by_transaction(self.scope, partition, offset):
                self.counts[transaction] += n

    def results(self) -> list[PassResult]:
        transactions = [("transaction", [*transaction, n]) for transaction, n in self.counts.items()]
        return [("visible", [self.everything.n, self.everything.sum, 0]), *transactions]


class ContentTotals:
    """Adds up the outputs of a transform that declares partitions, each in the partition where it belongs."""

    def __init__(self, scope: ProofScope) -> None:
        self.scope = scope
        self.content, self.kept = NOTHING, NOTHING

    def add(self, rows: pa.RecordBatch) -> None:
        offset, source, topic = (integers(rows, c) for c in ("o_offset", "o_partition", "topic"))
        self.kept += total(hash_rows(offset, source))
        compared = rows["compared"].to_numpy(zero_copy_only=False)
        partition = source.copy()  # a dead letter is in the partition of its origin
        for number, count in enumerate(self.scope.sink_partitions):
            chosen_rows = np.flatnonzero(topic == number)
            chosen = rows.take(pa.array(chosen_rows))
            partition[chosen_rows] = expected_partitions(chosen["key"], chosen["partition"], source[chosen_rows], count)
        columns = (integers(rows, "digest"), offset, source, topic, partition)
        self.content += content_total(self.scope, *(column[compared] for column in columns))

    def results(self) -> list[PassResult]:
        return [("recomputed", [self.content.n, self.content.sum, 0]), ("kept", [self.kept.n, self.kept.sum, 0])]


def add_by_transaction(scope: ProofScope, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the source records that Spark reads."""
    prepare_worker()
    visible = VisibleTotals(scope)
    for batch in batches:
        visible.add(integers(batch, "o_partition"), integers(batch, "o_offset"))
    yield result_batch(visible.results())


def add_by_place(scope: ProofScope, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the outputs that Spark recomputes."""
    prepare_worker()
    content = ContentTotals(scope)
    for batch in batches:
        content.add(batch)
    yield result_batch(content.results())
