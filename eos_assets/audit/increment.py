"""The rows that the audit tables lack.

The driver makes the rows if they are few, Spark if they are many; the rows are the same.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.audit.marks import Reached, TablesReached, advance
from eos_assets.audit.new_entries import Entries, read_new_entries
from eos_assets.audit.record_reader import read_digests
from eos_assets.audit.rows import PLACE, dead_letter_rows, delivery_rows, transaction_rows
from eos_assets.audit.schemas import DEAD_LETTERS, DELIVERIES
from eos_assets.context import PipelineContext
from eos_assets.kafka.headers import UnreadableHeadersError
from eos_assets.kafka.offsets import OffsetRange, bounds, bounds_of, offsets_for_times
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import provenance
from eos_assets.log.dead_letter import ERROR, ORIGIN, PIPELINE
from eos_assets.log.digest import digest_expression
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.provenance import ProvenanceMap
from eos_assets.transform.source import read_ranges
from eos_assets.verify.provenance_frame import decode_maps
from eos_assets.verify.topic_frames import union

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: By how much the clocks of workers and of the broker may differ.
CLOCK_DIFFERENCE_MS = 600_000
#: Up to these limits the driver reads new records itself: a Spark job takes longer.
FEW_RECORDS = 10_000
FEW_BYTES = 64 << 20


@dataclass(frozen=True)
class NewRows:
    """Rows that a table lacks, and how far it reaches with them."""

    rows: "pa.Table | DataFrame"
    reached: Reached


@dataclass(frozen=True)
class Increment:
    """What is committed and not yet in the tables."""

    context: PipelineContext
    #: The id of the ledger topic.
    ledger_id: str
    #: How far the tables reach.
    reached: TablesReached
    entries: Entries

    @staticmethod
    def read(context: PipelineContext, ledger_id: str, reached: TablesReached) -> "Increment":
        return Increment(context, ledger_id, reached, read_new_entries(context, reached))

    def transactions(self) -> NewRows | None:
        """One row per committed transaction."""
        known = self.reached.transactions
        new = [(offset, entry) for offset, entry in self.entries if offset > known.get(entry.partition, -1)]
        if not new:
            return None
        reached = advance(known, ((entry.partition, offset) for offset, entry in new))
        return NewRows(transaction_rows(new, self.ledger_id), reached)

    def deliveries(self) -> NewRows | None:
        """One row per output: where it is, its origin, its digest."""
        known = self.reached.deliveries
        entries = [entry for _, entry in self.entries if entry.start > known.get(entry.partition, -1)]
        topics = sorted({written.topic for entry in entries for written in entry.sinks})
        if not topics:
            return None
        maps, outputs = self.map_ranges(entries), self.output_ranges(topics, entries)
        reached = advance(known, ((entry.partition, entry.start) for entry in entries))
        if sum(r.size for ranges in outputs.values() for r in ranges) <= FEW_RECORDS:
            with contextlib.suppress(UnreadableHeadersError):  # Spark can read those
                records = read_digests(self.context.kafka, topics, outputs)
                return NewRows(delivery_rows(self.read_maps(maps, entries), records, topics), reached)
        return NewRows(self.delivery_frame(entries, topics, maps, outputs), reached)

    def map_ranges(self, entries: list[LedgerEntry]) -> list[OffsetRange]:
        """Where the maps of these transactions are: they were written after the transactions began."""
        topic = self.context.names.provenance
        first: dict[int, int] = {}
        for entry in entries:
            first[entry.partition] = min(first.get(entry.partition, entry.began_ms), entry.began_ms)
        current = bounds(self.context.kafka, topic)
        times = {p: ms - CLOCK_DIFFERENCE_MS for p, ms in first.items()}
        starts = offsets_for_times(self.context.kafka, topic, times)
        return [OffsetRange(p, max(current[p].start, starts[p]), current[p].stable) for p in first]

    def read_maps(self, ranges: list[OffsetRange], entries: list[LedgerEntry]) -> Iterator[ProvenanceMap]:
        """The maps of the outputs of these transactions."""
        wanted = {(entry.partition, entry.start) for entry in entries}
        starts = {(self.context.names.provenance, r.partition): r.start for r in ranges}
        for message in read_partitions(self.context.kafka, starts):
            provenance_map = provenance.read(message)
            if (provenance_map.source_partition, provenance_map.start) in wanted and not provenance_map.skips:
                yield provenance_map

    def output_ranges(self, topics: list[str], entries: list[LedgerEntry]) -> dict[int, list[OffsetRange]]:
        """Topic number → the ranges that hold the outputs of these transactions, and all records between them. A topic
        that no longer exists is left out."""
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for written in (written for entry in entries for written in entry.sinks):
            place = (written.topic, written.partition)
            first, last = spans.get(place, (written.first, written.last))
            spans[place] = min(first, written.first), max(last, written.last)
        existing = self.context.kafka.metadata().topics
        current = bounds_of(self.context.kafka, [place for place in spans if place[0] in existing])
        ranges: dict[int, list[OffsetRange]] = {number: [] for number in range(len(topics))}
        for (topic, p), bound in current.items():
            first, last = spans[topic, p]
            ranges[topics.index(topic)].append(OffsetRange(p, max(bound.start, first), last + 1))
        return ranges

    def delivery_frame(
        self,
        entries: list[LedgerEntry],
        topics: list[str],
        map_ranges: list[OffsetRange],
        output_ranges: dict[int, list[OffsetRange]],
    ) -> "DataFrame":
        """The same rows, made by Spark."""
        from pyspark.sql import functions as f

        provenance_topic = self.context.names.provenance
        maps = decode_maps(self.read_topic(provenance_topic, map_ranges), provenance_topic, topics)
        transactions = [(entry.partition, entry.start) for entry in entries]
        starts = self.context.spark.createDataFrame(transactions, "source_partition int, start long")
        outputs = maps.where("sink_offset >= 0").join(f.broadcast(starts), ["source_partition", "start"])
        frames = [
            self.read_topic(topics[number], ranges).selectExpr(
                f"{number} AS topic",
                "`partition` AS sink_partition",
                "`offset` AS sink_offset",
                f"{digest_expression(with_headers=True)} AS digest",
                "`timestamp` AS written_at",
            )
            for number, ranges in output_ranges.items()
        ]
        joined = outputs.join(union(frames), PLACE, "left")
        names = f.array(*(f.lit(topic) for topic in topics))
        rows = joined.withColumn("topic", f.get(names, f.col("topic"))).withColumnRenamed("start", "transaction_start")
        return rows.select(DELIVERIES.names)

    def dead_letters(self) -> NewRows | None:
        """The rejected records with their own bytes, their origin and the reason."""
        topic, known = self.context.names.dead_letters, self.reached.dead_letters
        current = bounds(self.context.kafka, topic)
        ranges = [OffsetRange(p, max(b.start, known.get(p, -1) + 1), b.stable) for p, b in current.items()]
        reached = advance(known, ((r.partition, r.end - 1) for r in ranges))
        written = sum(entry.bytes_out for _, entry in self.entries)
        if sum(r.size for r in ranges) > FEW_RECORDS or written > FEW_BYTES:
            return NewRows(self.dead_letter_frame(ranges), reached)
        starts = {(topic, r.partition): r.start for r in ranges if r.size}
        ends = {(topic, r.partition): r.end for r in ranges if r.size}
        rows = dead_letter_rows(read_partitions(self.context.kafka, starts, ends), self.context.pipeline.name)
        return NewRows(rows, reached) if rows.num_rows else None

    def dead_letter_frame(self, ranges: list[OffsetRange]) -> "DataFrame":
        """The same rows, made by Spark."""
        rows = self.read_topic(self.context.names.dead_letters, ranges)
        return (
            rows.where(header(PIPELINE) == self.context.pipeline.name)  # others may share the topic
            .select("partition", "offset", "key", "value", header(ERROR), header(ORIGIN), "timestamp")
            .toDF(*DEAD_LETTERS.names)
        )

    def read_topic(self, name: str, ranges: list[OffsetRange]) -> "DataFrame":
        return read_ranges(self.context.spark, self.context.kafka, name, ranges)


def header(name: str) -> "Column":
    """The last header of this name. A record that was a dead letter before still has the earlier ones."""
    from pyspark.sql import functions as f

    named = f.filter("headers", lambda h: h["key"] == name)
    return f.try_element_at(named, f.lit(-1))["value"].cast("string")
