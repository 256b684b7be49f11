"""What the audit tables lack: the new entries of the ledger, and the rows that come of them.

Few rows are made by the driver, many by Spark; they are the same.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.audit.rows import (
    DEAD_LETTERS,
    DELIVERIES,
    PLACE,
    dead_letter_rows,
    delivery_rows,
    transaction_rows,
)
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.headers import UnreadableHeadersError
from eos_assets.kafka.offsets import await_stable, bounds, bounds_of, offsets_for_times
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger, provenance
from eos_assets.log.digest import digest_expression
from eos_assets.log.ledger import LedgerEntry, WrittenRange
from eos_assets.log.provenance import ProvenanceMap
from eos_assets.log.ranges import OffsetRange
from eos_assets.transform.source import read_ranges
from eos_assets.verify.frames import unfolded, unioned
from eos_assets.verify.record_reader import read_records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: How long to wait until what the ledger speaks of can be read.
PATIENCE_SECONDS = 10.0
#: Clocks of workers and of the broker may differ by so much.
CLOCKS_MS = 600_000
#: Up to these limits new records are read by the driver: a Spark job takes longer.
FEW_RECORDS = 10_000
FEW_BYTES = 64 << 20
Entries = list[tuple[int, LedgerEntry]]


@dataclass(frozen=True)
class NewRows:
    """Rows that a table lacks, and up to where it reaches with them: of each partition, an offset."""

    rows: "pa.Table | DataFrame"
    reached: dict[int, int]


class Increment:
    """What is committed, and not in the tables."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: "SparkSession",
        connection: Connection,
        ledger_id: str,
        transactions: dict[int, int],
        deliveries: dict[int, int],
        dead_letters: dict[int, int],
    ) -> None:
        """
        Args:
            pipeline, spark, connection: what is read, and how.
            ledger_id: the id of the ledger topic.
            transactions: of each partition, the last ledger offset that is in its table.
            deliveries: of each partition, the start of the last transaction whose outputs are.
            dead_letters: of each partition of their topic, the last offset that was looked at.
        """
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.names = pipeline.names()
        self.ledger_id = ledger_id
        self.reached = (transactions, deliveries, dead_letters)
        self.entries = self.new_entries(transactions, deliveries)

    def new_entries(self, known: dict[int, int], delivered: dict[int, int]) -> Entries:
        """The entries of the ledger that a table lacks, up to the first one whose maps or outputs cannot be read yet: a
        commit becomes visible in one partition after another."""
        ends = {p: there.stable for p, there in bounds(self.connection, self.names.ledger).items()}
        found = self.read_ledger({p: known.get(p, 0) for p in ends}, ends)
        last = {e.partition: e.start for at, e in found if at == known.get(e.partition) and e.sinks}
        if died := [p for p, start in last.items() if start > delivered.get(p, -1)]:
            # An update wrote the transactions and not their deliveries: which ones, the whole ledger says.
            others = [(at, entry) for at, entry in found if entry.partition not in died]
            found = [*others, *self.read_ledger(dict.fromkeys(died, 0), ends)]
        late = self.late(entry for at, entry in found if at > known.get(entry.partition, -1))
        for at, entry in found:
            late_maps = (self.names.provenance, entry.partition) in late
            late_sinks = any(part.last >= late.get((part.topic, part.partition), part.last + 1) for part in entry.sinks)
            if at > known.get(entry.partition, -1) and (late_maps or late_sinks):
                ends[entry.partition] = min(ends[entry.partition], at)
        return [(at, entry) for at, entry in found if at < ends[entry.partition]]

    def read_ledger(self, starts: dict[int, int], ends: dict[int, int]) -> Entries:
        found: Entries = []
        for message in read_partitions(self.connection, {(self.names.ledger, p): start for p, start in starts.items()}):
            at, entry = message.offset() or 0, ledger.read(message)
            if isinstance(entry, LedgerEntry) and at < ends[entry.partition]:
                found.append((at, entry))
        return found

    def late(self, entries: Iterable[LedgerEntry]) -> dict[tuple[str, int], int]:
        """The partitions of maps and outputs that are not stable up to what these entries need, and up to where they
        are, when the patience has ended."""
        maps = bounds(self.connection, self.names.provenance)
        needed = {(self.names.provenance, p): there.high for p, there in maps.items()}
        for part in (part for entry in entries for part in entry.sinks):
            place = (part.topic, part.partition)
            needed[place] = max(needed.get(place, 0), part.last + 1)
        existing = {topic for topic, _ in needed} & set(self.connection.metadata().topics)
        found = await_stable(self.connection, existing, needed, PATIENCE_SECONDS)
        return {(t, p): found[t][p].stable for (t, p), end in needed.items() if t in found and found[t][p].stable < end}

    def transactions(self) -> NewRows | None:
        """One row per committed transaction: the ledger."""
        known, _, _ = self.reached
        new = [(at, entry) for at, entry in self.entries if at > known.get(entry.partition, -1)]
        if not new:
            return None
        return NewRows(transaction_rows(new, self.ledger_id), highest(known, ((e.partition, at) for at, e in new)))

    def deliveries(self) -> NewRows | None:
        """One row per output record: where it is, where it came from, what it holds in sum."""
        _, known, _ = self.reached
        entries = [entry for _, entry in self.entries if entry.start > known.get(entry.partition, -1)]
        parts = [part for entry in entries for part in entry.sinks]
        if not parts:
            return None
        topics = sorted({part.topic for part in parts})
        maps, written = self.maps(entries), self.written(topics, parts)
        reached = highest(known, ((entry.partition, entry.start) for entry in entries))
        if sum(r.size for ranges in written.values() for r in ranges) <= FEW_RECORDS:
            with contextlib.suppress(UnreadableHeadersError):
                records = read_records(self.connection, topics, written)
                return NewRows(delivery_rows(self.read_maps(maps, entries), records, topics), reached)
        return NewRows(self.delivered(entries, topics, maps, written), reached)

    def maps(self, entries: list[LedgerEntry]) -> list[OffsetRange]:
        """Where the maps of these transactions are: written after they began."""
        first: dict[int, int] = {}
        for entry in entries:
            first[entry.partition] = min(first.get(entry.partition, entry.began_ms), entry.began_ms)
        there = bounds(self.connection, self.names.provenance)
        begins = offsets_for_times(
            self.connection, self.names.provenance, {p: ms - CLOCKS_MS for p, ms in first.items()}
        )
        return [OffsetRange(p, max(there[p].start, begins[p]), there[p].stable) for p in first]

    def read_maps(self, ranges: list[OffsetRange], entries: list[LedgerEntry]) -> Iterator[ProvenanceMap]:
        """The maps of the outputs of these transactions."""
        wanted = {(entry.partition, entry.start) for entry in entries}
        for message in read_partitions(
            self.connection, {(self.names.provenance, r.partition): r.start for r in ranges}
        ):
            found = provenance.read(message)
            if (found.source_partition, found.start) in wanted and not found.skips:
                yield found

    def written(self, topics: list[str], parts: list[WrittenRange]) -> dict[int, list[OffsetRange]]:
        """Topic number → where the outputs of these transactions are, and whatever lies between them. A topic that no
        longer exists is left out."""
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for part in parts:
            first, last = spans.get((part.topic, part.partition), (part.first, part.last))
            spans[part.topic, part.partition] = min(first, part.first), max(last, part.last)
        existing = self.connection.metadata().topics
        there = bounds_of(self.connection, [place for place in spans if place[0] in existing])
        found: dict[int, list[OffsetRange]] = {number: [] for number in range(len(topics))}
        for (topic, p), bound in there.items():
            first, last = spans[topic, p]
            found[topics.index(topic)].append(OffsetRange(p, max(bound.start, first), last + 1))
        return found

    def delivered(
        self,
        entries: list[LedgerEntry],
        topics: list[str],
        ranges: list[OffsetRange],
        written: dict[int, list[OffsetRange]],
    ) -> "DataFrame":
        """The same rows, made by Spark."""
        from pyspark.sql import functions as f

        maps = unfolded(self.topic(self.names.provenance, ranges), self.names.provenance, topics)
        new = [(entry.partition, entry.start) for entry in entries]
        starts = self.spark.createDataFrame(new, "source_partition int, start long")
        outputs = maps.where("sink_offset >= 0").join(f.broadcast(starts), ["source_partition", "start"])
        frames = [
            self.topic(topics[number], ranges).selectExpr(
                f"{number} AS topic",
                "`partition` AS sink_partition",
                "`offset` AS sink_offset",
                f"{digest_expression(with_headers=True)} AS digest",
                "`timestamp` AS written_at",
            )
            for number, ranges in written.items()
        ]
        joined = outputs.join(unioned(frames), PLACE, "left")
        names = f.array(*(f.lit(topic) for topic in topics))
        rows = joined.withColumn("topic", f.get(names, f.col("topic"))).withColumnRenamed("start", "transaction_start")
        return rows.select(DELIVERIES.names)

    def dead_letters(self) -> NewRows | None:
        """The rejected records with their own bytes, their origin and the reason."""
        topic, (_, _, known) = self.names.dead_letters, self.reached
        there = bounds(self.connection, topic)
        ranges = [OffsetRange(p, max(b.start, known.get(p, -1) + 1), b.stable) for p, b in there.items()]
        reached = highest(known, ((r.partition, r.end - 1) for r in ranges))
        written = sum(entry.bytes_out for _, entry in self.entries)
        if sum(r.size for r in ranges) > FEW_RECORDS or written > FEW_BYTES:
            return NewRows(self.letters(ranges), reached)
        ends = {r.partition: r.end for r in ranges if r.size}
        messages = read_partitions(self.connection, {(topic, r.partition): r.start for r in ranges if r.size})
        visible = (message for message in messages if (message.offset() or 0) < ends[message.partition() or 0])
        rows = dead_letter_rows(visible, self.pipeline.name)
        return NewRows(rows, reached) if rows.num_rows else None

    def letters(self, ranges: list[OffsetRange]) -> "DataFrame":
        """The same rows, made by Spark."""
        rows = self.topic(self.names.dead_letters, ranges)
        return (
            rows.where(header("eos.pipeline") == self.pipeline.name)  # others may share the topic
            .select("partition", "offset", "key", "value", header("eos.error"), header("eos.origin"), "timestamp")
            .toDF(*DEAD_LETTERS.names)
        )

    def topic(self, name: str, ranges: list[OffsetRange]) -> "DataFrame":
        return read_ranges(self.spark, self.connection, name, ranges)


def highest(before: dict[int, int], found: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The highest offset of each partition."""
    reached = dict(before)
    for partition, offset in found:
        reached[partition] = max(reached.get(partition, -1), offset)
    return reached


def header(name: str) -> "Column":
    """The last header of this name: a record that was a dead letter before brings its old ones along."""
    from pyspark.sql import functions as f

    named = f.filter("headers", lambda h: h["key"] == name)
    return f.try_element_at(named, f.lit(-1))["value"].cast("string")
