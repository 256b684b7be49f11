"""Ledger, provenance and topics in, four Delta tables out: incremental, idempotent, rebuilt from the topics at will.

Each update appends, in one Delta commit per table, what the table does not hold yet. The commit carries the ledger's
topic id and the sum of its ends: it rises with every ledger entry, is never a clock, and a repeated write of the same
version is skipped by Delta. A new ledger has a new id, and the tables of the old one make way.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.exactly_once import ledger
from eos_assets.exactly_once.job import OffsetRange
from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.plan import make_plan
from eos_assets.exactly_once.shape import digest
from eos_assets.exactly_once.source import read_ranges
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import await_stable, bounds, offsets_at
from eos_assets.kafka.tail import stream
from eos_assets.proof import proven
from eos_assets.proof.tables import check_maps, unfolded, unioned

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LEDGER_SCHEMA = (
    "v int, kind string, pipeline string, topic string, partition int, start long, next long, records_in long, "
    "records_out long, skipped long, dead long, dropped long, "
    "sinks array<struct<topic:string,partition:int,count:long,first:long,last:long,digest:decimal(20,0)>>, "
    "run string, run_attempt int, task_attempt int, code_version string, began_ms long, ended_ms long, mode string, "
    "bytes_out long, files map<string,string>"
)
#: How long to wait until what the ledger speaks of can be read.
PATIENCE_SECONDS = 10.0
#: Clocks of workers and of the broker may differ by so much.
CLOCKS_MS = 600_000
TABLES = ("audit_transactions", "audit_deliveries", "audit_dead_letters", "audit_partitions")


@dataclass(frozen=True)
class TableState:
    """One table after an update."""

    name: str
    path: str
    rows: int
    columns: dict[str, str]


class AuditTables:
    """The tables of one pipeline, below one folder of the lake."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession", connection: Connection, lake: str) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.names = pipeline.names()
        self.folder = f"{lake.rstrip('/')}/{pipeline.name}"
        self.sinks = [sink.name for sink in pipeline.sinks]

    @functools.cached_property
    def ledger_id(self) -> str:
        return self.connection.topic_ids([self.names.ledger])[self.names.ledger]

    def path(self, table: str) -> str:
        return f"{self.folder}/{table}"

    def read(self, table: str) -> "DataFrame":
        return self.spark.read.format("delta").load(self.path(table))

    def update(self, *, rebuild: bool = False) -> list[TableState]:
        """Brings every table up to what is committed. With `rebuild` nothing of the old tables remains."""
        makers: dict[str, Callable[[bool], DataFrame | None]] = {
            "audit_transactions": self.transactions,
            "audit_deliveries": self.deliveries,
            "audit_dead_letters": self.dead_letters,
        }
        self.version = 0
        rebuild = rebuild or self.is_of_another_ledger()
        if rebuild:
            self.forget()
        for table, make in makers.items():
            fresh = rebuild or not self.exists(table)
            rows = make(fresh)
            if rows is not None:
                self.append(table, rows, fresh=fresh)
        self.partitions().write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
            self.path("audit_partitions")
        )
        return [self.state(table) for table in TABLES]

    def forget(self) -> None:
        """Empties what is known by the first table: if we die before that one is new, the next update begins here."""
        for table in ("audit_deliveries", "audit_dead_letters"):
            if self.exists(table):
                self.append(table, self.read(table).limit(0), fresh=True)

    def append(self, table: str, rows: "DataFrame", *, fresh: bool) -> None:
        writer = rows.write.format("delta")
        if fresh:
            writer = writer.mode("overwrite").option("overwriteSchema", "true")
        else:
            application = f"{self.pipeline.name}/{table}/{self.ledger_id}"
            writer = writer.mode("append").option("txnAppId", application).option("txnVersion", str(self.version))
        try:
            writer.save(self.path(table))
        except Exception as failure:
            check_maps(failure, self.connection, self.names.provenance)
            raise

    def exists(self, table: str) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return bool(self.read(table).columns)
        except AnalysisException:
            return False

    def is_of_another_ledger(self) -> bool:
        """Whether the tables speak of a ledger that was deleted since, or were made by an older version."""
        if not self.exists("audit_transactions"):
            return False
        known = self.read("audit_transactions")
        return "ledger_id" not in known.columns or not known.where(known["ledger_id"] != self.ledger_id).isEmpty()

    def state(self, table: str) -> TableState:
        frame = self.read(table)
        columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        return TableState(table, self.path(table), frame.count(), columns)

    def reached(self, table: str, partition: str, offset: str) -> dict[int, int]:
        """The highest offset that a table holds of each partition."""
        rows = self.read(table).groupBy(partition).agg({offset: "max"}).collect()
        return {row[0]: row[1] for row in rows}

    def transactions(self, fresh: bool) -> "DataFrame | None":
        """One row per committed transaction: the ledger."""
        from pyspark.sql import functions as f

        reached = {} if fresh else self.reached("audit_transactions", "partition", "ledger_offset")
        ranges = self.visible(reached)
        self.version = sum(r.end for r in ranges)
        if not fresh and not any(r.size for r in ranges):
            return None
        parsed = f.from_json(f.col("value").cast("string"), LEDGER_SCHEMA).alias("entry")
        rows = self.topic(self.names.ledger, ranges).select(f.col("offset").alias("ledger_offset"), parsed)
        return rows.where("entry.kind = 'entry'").select(
            "entry.pipeline",
            "entry.partition",
            "entry.start",
            "entry.next",
            "ledger_offset",
            f.lit(self.ledger_id).alias("ledger_id"),
            *(f"entry.{name}" for name in ("records_in", "records_out", "skipped", "dead", "dropped", "bytes_out")),
            "entry.sinks",
            "entry.run",
            "entry.run_attempt",
            "entry.task_attempt",
            "entry.code_version",
            f.timestamp_millis("entry.began_ms").alias("began_at"),
            f.timestamp_millis("entry.ended_ms").alias("ended_at"),
        )

    def visible(self, reached: dict[int, int]) -> list[OffsetRange]:
        """The new part of the ledger, up to the first entry whose maps or outputs cannot be read yet: a commit becomes
        visible in one partition after another."""
        ends = {p: there.stable for p, there in bounds(self.connection, self.names.ledger).items()}
        new = [OffsetRange(p, reached.get(p, -1) + 1, end) for p, end in ends.items()]
        maps = bounds(self.connection, self.names.provenance)
        needed = {(self.names.provenance, p): there.high for p, there in maps.items()}
        for part in (part for ledger_range in new for _, entry in self.entries(ledger_range) for part in entry.sinks):
            place = (part.topic, part.partition)
            needed[place] = max(needed.get(place, 0), part.last + 1)
        existing = {topic for topic, _ in needed} & set(self.connection.metadata().topics)
        found = await_stable(self.connection, existing, needed, PATIENCE_SECONDS)
        late = {(t, p): found[t][p].stable for (t, p), end in needed.items() if t in found and found[t][p].stable < end}
        return [self.cut(ledger_range, late) for ledger_range in new]

    def cut(self, new: OffsetRange, late: dict[tuple[str, int], int]) -> OffsetRange:
        """The part of a ledger range before the first entry that needs one of the places that are late."""
        if (self.names.provenance, new.partition) in late:
            return OffsetRange(new.partition, new.start, new.start)
        for offset, entry in self.entries(new) if late else ():
            if any(part.last >= late.get((part.topic, part.partition), part.last + 1) for part in entry.sinks):
                return OffsetRange(new.partition, new.start, offset)
        return new

    def entries(self, part: OffsetRange) -> Iterator[tuple[int, LedgerEntry]]:
        """The entries of a part of the ledger, with their offsets."""
        for message in stream(self.connection, self.names.ledger, part.partition, part.start, part.end):
            entry = ledger.read(message)
            if isinstance(entry, LedgerEntry):
                yield message.offset() or 0, entry

    def deliveries(self, fresh: bool) -> "DataFrame | None":
        """One row per output record: where it is, where it came from, what it holds in sum."""
        from pyspark.sql import functions as f

        reached = {} if fresh else self.reached("audit_deliveries", "source_partition", "transaction_start")
        known = self.read("audit_transactions")
        missing = known.where(newer(reached, "partition", "start"))
        new = missing.select("partition", "start", "sinks", "began_at").collect()
        if not new:
            return self.no_deliveries() if fresh else None
        first = {p: min(int(r.began_at.timestamp() * 1000) for r in new if r.partition == p) for p in partitions(new)}
        there = bounds(self.connection, self.names.provenance)
        begins = offsets_at(self.connection, self.names.provenance, {p: ms - CLOCKS_MS for p, ms in first.items()})
        ranges = [OffsetRange(p, max(there[p].start, begins[p]), there[p].stable) for p in first]
        topics = sorted({*self.sinks, self.names.dead_letters, *(part.topic for row in new for part in row.sinks)})
        maps = unfolded(self.topic(self.names.provenance, ranges), self.names.provenance, topics)
        starts = missing.selectExpr("partition as source_partition", "start")
        outputs = maps.where("sink_offset >= 0").join(f.broadcast(starts), ["source_partition", "start"])
        place = ["topic", "sink_partition", "sink_offset"]
        joined = outputs.join(self.written(topics, new), place, "left")
        names = f.array(*(f.lit(topic) for topic in topics))
        return joined.select(
            f.get(names, f.col("topic")).alias("topic"),
            *place[1:],
            "source_partition",
            "source_offset",
            "sequence",
            f.col("start").alias("transaction_start"),
            "digest",
            "written_at",
        )

    def no_deliveries(self) -> "DataFrame":
        return self.spark.createDataFrame(
            [],
            "topic string, sink_partition int, sink_offset long, source_partition int, source_offset long, "
            "sequence long, transaction_start long, digest long, written_at timestamp",
        )

    def written(self, topics: list[str], new: list) -> "DataFrame":  # type: ignore[type-arg]
        """The sink records of these transactions, and whatever lies between them."""
        from pyspark.sql import functions as f

        frames, existing = [], self.connection.metadata().topics
        for number, topic in enumerate(topics):
            parts = [part for row in new for part in row.sinks if part.topic == topic]
            there = bounds(self.connection, topic) if topic in existing else {}
            parts = parts if there else []  # of a topic that no longer exists
            spans = {p: [part for part in parts if part.partition == p] for p in {part.partition for part in parts}}
            ranges = [
                OffsetRange(p, max(there[p].start, min(x.first for x in span)), max(x.last for x in span) + 1)
                for p, span in spans.items()
            ]
            frames.append(
                self.topic(topic, ranges).select(
                    f.lit(number).alias("topic"),
                    f.col("partition").alias("sink_partition"),
                    f.col("offset").alias("sink_offset"),
                    digest(with_headers=False).alias("digest"),
                    f.col("timestamp").alias("written_at"),
                )
            )
        return unioned(frames)

    def dead_letters(self, fresh: bool) -> "DataFrame | None":
        """The rejected records with their own bytes, their origin and the reason."""
        reached = {} if fresh else self.reached("audit_dead_letters", "sink_partition", "sink_offset")
        there = bounds(self.connection, self.names.dead_letters)
        ranges = [OffsetRange(p, max(b.start, reached.get(p, -1) + 1), b.stable) for p, b in there.items()]
        if not fresh and not any(r.size for r in ranges):
            return None
        return (
            self.topic(self.names.dead_letters, ranges)
            .where(header("eos.pipeline") == self.pipeline.name)  # others may share the topic
            .select(
                "partition",
                "offset",
                "key",
                "value",
                header("eos.error").alias("reason"),
                header("eos.origin").alias("origin"),
                "timestamp",
            )
            .toDF("sink_partition", "sink_offset", "key", "value", "reason", "origin", "written_at")
        )

    def partitions(self) -> "DataFrame":
        """How each source partition stands, at a glance."""
        plans = make_plan(self.pipeline, self.connection)
        places = [(self.pipeline.source.name, plan.partition) for plan in plans]
        marks = proven.load(self.connection, self.names, places)
        rows = [
            (
                plan.partition,
                plan.log_start,
                plan.position,
                plan.stable_end,
                plan.lag,
                marks.get((self.pipeline.source.name, plan.partition)),
            )
            for plan in plans
        ]
        return self.spark.createDataFrame(
            rows, "partition int, log_start long, position long, last_stable long, lag long, proven long"
        )

    def topic(self, name: str, ranges: list[OffsetRange]) -> "DataFrame":
        return read_ranges(self.spark, self.connection, name, ranges)


def newer(reached: dict[int, int], partition: str, offset: str) -> "Column":
    """The rows behind what was reached in their partition."""
    from pyspark.sql import functions as f

    condition = f.lit(True)
    for p, last in reached.items():
        condition &= (f.col(partition) != p) | (f.col(offset) > last)
    return condition


def partitions(rows: list) -> set[int]:  # type: ignore[type-arg]
    return {row.partition for row in rows}


def header(name: str) -> "Column":
    """The last header of this name: a record that was a dead letter before brings its old ones along."""
    from pyspark.sql import functions as f

    named = f.filter("headers", lambda h: h["key"] == name)
    return f.try_element_at(named, f.lit(-1))["value"].cast("string")
