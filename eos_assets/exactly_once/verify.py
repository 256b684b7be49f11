"""Reads source, sink, dead letters and ledger from the brokers and evaluates every invariant. Trusts nothing else."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from eos_assets.exactly_once import ledger, provenance
from eos_assets.exactly_once.invariants import (
    SHOWN,
    Finding,
    code_versions,
    ledger_matches_sink,
    ledger_tiles_source,
    no_open_transactions,
    offsets_match_ledger,
)
from eos_assets.exactly_once.job import OffsetRange
from eos_assets.exactly_once.ledger import Genesis, LedgerEntry
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.shape import digest, travelling
from eos_assets.exactly_once.source import read_ranges, records
from eos_assets.exactly_once.source_reader import SourceReader
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds
from eos_assets.kafka.routing import partitions_of
from eos_assets.kafka.tail import stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MAP_SCHEMA = (
    "source_partition int, start long, topic string, sink_partition int, "
    "sink_offset long, source_offset long, sequence long"
)
EMPTY_TOPIC = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, offset long"


@dataclass
class Verification:
    """What was found: one finding per invariant, and the figures behind them."""

    pipeline: str
    mode: Mode
    findings: list[Finding] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return all(finding.holds or finding.severity == "warning" for finding in self.findings)


def verify_pipeline(
    pipeline: Pipeline,
    spark: "SparkSession",
    connection: Connection,
    *,
    mode: Mode = Mode.EXACTLY_ONCE,
    isolation: str = "read_committed",
) -> Verification:
    """Evaluates every invariant on all that is retained. Reads only."""
    return Verifier(pipeline, spark, connection, mode, isolation).verify()


class Verifier:
    """One look at one pipeline."""

    def __init__(
        self, pipeline: Pipeline, spark: "SparkSession", connection: Connection, mode: Mode, isolation: str
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.mode = mode
        self.isolation = isolation
        self.names = pipeline.names(mode)
        self.partitions = connection.partitions(pipeline.source.name)
        self.sinks = [self.names.sink(sink.name) for sink in pipeline.sinks]
        self.written = [*self.sinks, self.names.dead_letters]

    def verify(self) -> Verification:
        begun = time.monotonic()
        self.bounds = {topic: bounds(self.connection, topic) for topic in (*self.written, self.names.provenance)}
        self.source_bounds = bounds(self.connection, self.pipeline.source.name)
        self.positions, self.groups = self.committed()
        self.retained = self.retained_ranges()
        self.load()
        try:
            findings = [
                self.no_duplicates(),
                self.none_missing(),
                self.none_invented(),
                self.ordered_within_partition(),
                self.routed_correctly(),
                *self.about_the_ledger(),
                self.values_recompute(),
                self.source_is_unique(),
            ]
        finally:
            for frame in self.kept:
                frame.unpersist()
        later = {topic: bounds(self.connection, topic) for topic in self.bounds}
        timeout = self.pipeline.transaction_timeout_ms / 1000
        findings.append(no_open_transactions(self.bounds, later, time.monotonic() - begun, timeout))
        versions = code_versions(self.entries())
        return Verification(self.pipeline.name, self.mode, findings, versions, self.figures)

    # What is read.

    def committed(self) -> tuple[dict[int, int | None], dict[int, int | None]]:
        """The position of each source partition, by the ledger or, weaker, by the group; and the group offset."""
        reader = SourceReader(self.connection.config(), self.names)
        try:
            groups = {p: at for p in self.partitions for at in stable_group_offset(reader, p)}
            if self.mode is not Mode.EXACTLY_ONCE:
                return groups, groups
            tails = {p: reader.ledger_tail(p) for p in self.partitions}
        finally:
            reader.close()
        return {p: t.next if isinstance(t, LedgerEntry) else t.start if t else None for p, t in tails.items()}, groups

    def ledger(self, partition: int) -> Iterator[Genesis | LedgerEntry]:
        for message in stream(self.connection, self.names.ledger, partition):
            value = message.value()
            if value is not None:
                yield ledger.load(value)

    def entries(self) -> Iterator[LedgerEntry]:
        for partition in self.partitions:
            for row in self.ledger(partition):
                if isinstance(row, LedgerEntry):
                    yield row

    def retained_ranges(self) -> list[OffsetRange]:
        """The source from the genesis to each position, as far as it is still there."""
        ranges = []
        for partition, position in self.positions.items():
            genesis = next(self.ledger(partition), None) if self.mode is Mode.EXACTLY_ONCE else None
            start = max(self.source_bounds[partition].start, genesis.start if genesis else 0)
            if position is not None and position > start:
                ranges.append(OffsetRange(partition, start, position))
        return ranges

    def load(self) -> None:
        """The tables that every check is made of. Each topic is scanned once; Spark keeps them, on disk if need be."""
        from pyspark.sql import functions as f

        self.source = self.source_records().persist()
        self.map = self.provenance_map().persist()
        frames = [self.topic(name).withColumn("topic", f.lit(name)) for name in self.written]
        sink = functools.reduce(lambda one, other: one.unionByName(other), frames)
        self.sink = sink.select(
            "topic",
            f.col("partition").alias("sink_partition"),
            f.col("offset").alias("sink_offset"),
            "key",
            digest(with_headers="headers" in self.result_columns()).alias("digest"),
        ).persist()
        outputs = self.map.where("sink_offset >= 0")
        place = ["topic", "sink_partition", "sink_offset"]
        self.delivered = self.sink.drop("key").join(outputs, place, "full").persist()
        self.visible = self.delivered.where("digest is not null and source_offset is not null")
        self.kept = [self.source, self.map, self.sink, self.delivered]
        self.figures = {
            "source_records": self.source.count(),
            "sink_records": self.sink.count(),
            "outputs_with_origin": self.visible.count(),
        }

    def result_columns(self) -> list[str]:
        return list(self.pipeline.transform(self.transform_input()).columns) if self.retained else []

    def transform_input(self, **options: str) -> "DataFrame":
        return records(self.spark, self.connection, self.pipeline.source.name, self.retained, **options)

    def source_records(self) -> "DataFrame":
        if not self.retained:
            return self.spark.createDataFrame([], "source_partition int, source_offset long")
        read = read_ranges(self.spark, self.connection, self.pipeline.source.name, self.retained)
        return read.selectExpr("partition as source_partition", "offset as source_offset")

    def topic(self, name: str) -> "DataFrame":
        """All visible records of a topic, up to its last stable offset or, uncommitted, its high watermark."""
        committed = self.isolation == "read_committed"
        ranges = [OffsetRange(p, b.start, b.stable if committed else b.high) for p, b in self.bounds[name].items()]
        if not any(r.size for r in ranges):
            return self.spark.createDataFrame([], EMPTY_TOPIC)
        read = read_ranges(self.spark, self.connection, name, ranges, **{"kafka.isolation.level": self.isolation})
        return read.select("key", "value", "headers", "partition", "offset")

    def provenance_map(self) -> "DataFrame":
        name = self.names.provenance
        ranges = [OffsetRange(p, b.start, b.stable) for p, b in self.bounds[name].items()]
        if not any(r.size for r in ranges):
            return self.spark.createDataFrame([], MAP_SCHEMA)
        return read_ranges(self.spark, self.connection, name, ranges).select("value").mapInArrow(unfold, MAP_SCHEMA)

    # What is checked.

    def no_duplicates(self) -> Finding:
        from pyspark.sql import functions as f

        place = f.concat_ws("/", "topic", "sink_partition", "sink_offset")
        origin = ["source_partition", "source_offset", "sequence"]
        twice = self.visible.groupBy(*origin).agg(f.sort_array(f.collect_list(place)).alias("at")).where("size(at) > 1")
        place_of_two = ["topic", "sink_partition", "sink_offset"]
        two_origins = self.map.where("sink_offset >= 0").groupBy(*place_of_two).agg(f.count("*").alias("origins"))
        holds = f"{self.figures['outputs_with_origin']:,} outputs, each origin once"
        found = [twice, two_origins.where("origins > 1")]
        return from_frames("no_duplicates", found, holds, "origins visible more than once")

    def none_missing(self) -> Finding:
        """Every visible source record below the position has an output, a dead letter or a skip; and every record that
        a committed map names is there."""
        origin = ["source_partition", "source_offset"]
        unnamed = self.source.join(self.map, origin, "left_anti")
        if self.pipeline.drops and self.retained:
            again = self.pipeline.transform(self.transform_input())
            kept = again.selectExpr("origin.partition as source_partition", "origin.offset as source_offset")
            unnamed = unnamed.join(kept, origin, "left_semi")
        gone = self.delivered.where("digest is null and source_offset is not null")
        gone = above(gone, {t: self.bounds[t] for t in self.written}).drop("digest", "start")
        holds = f"{self.figures['source_records']:,} source records accounted for"
        return from_frames("none_missing", [unnamed, gone], holds, "records missing")

    def none_invented(self) -> Finding:
        from pyspark.sql import functions as f

        found = []
        if not self.pipeline.shared_sink:
            unnamed = self.delivered.where("digest is not null and source_offset is null")
            found.append(unnamed.select("topic", "sink_partition", "sink_offset"))
        origins = self.map.drop("sequence", "start")
        for partition, there in self.source_bounds.items():
            if there.start:  # what retention took from the source proves nothing
                below = (f.col("source_partition") == partition) & (f.col("source_offset") < there.start)
                origins = origins.where(~below)
        found.append(origins.join(self.source, ["source_partition", "source_offset"], "left_anti"))
        return from_frames(
            "none_invented", found, "every visible record has a visible origin", "records without an origin"
        )

    def ordered_within_partition(self) -> Finding:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        along = Window.partitionBy("source_partition", "topic", "sink_partition").orderBy("sink_offset")
        here = f.struct("source_offset", "sequence")
        falling = self.visible.withColumn("before", f.lag(here).over(along)).where(f.col("before") >= here)
        columns = ["topic", "sink_partition", "sink_offset", "source_partition", "source_offset", "before"]
        found = [falling.select(*columns)]
        return from_frames(
            "ordered_within_partition", found, "origins rise with the sink offset", "records out of order"
        )

    def routed_correctly(self) -> Finding:
        from pyspark.sql import functions as f

        name = "routed_correctly"
        if "partition" in self.result_columns():
            return Finding(name, True, "not evaluated: the transform declares partitions itself", evaluated=False)
        counts = {topic: len(self.bounds[topic]) for topic in self.sinks}
        outputs = self.sink.where(f.col("topic").isin(self.sinks)).drop("digest")
        columns = "topic string, sink_partition int, sink_offset long, expected int"
        found = [outputs.mapInArrow(misrouted(counts), columns)]
        return from_frames(name, found, "every key is in its partition", "records in a wrong partition")

    def about_the_ledger(self) -> list[Finding]:
        """In the weaker modes the ledger is not atomic with the output, so it proves nothing there."""
        if self.mode is not Mode.EXACTLY_ONCE:
            return []
        return [
            ledger_tiles_source({p: self.ledger(p) for p in self.partitions}),
            ledger_matches_sink(self.provable_entries(), self.sink_sums()),
            offsets_match_ledger({p: at for p, at in self.positions.items() if at is not None}, self.groups),
        ]

    def provable_entries(self) -> Iterator[LedgerEntry]:
        """The entries whose sink ranges are wholly above the sinks' log starts."""
        for entry in self.entries():
            if all(part.first >= self.bounds[part.topic][part.partition].start for part in entry.sinks):
                yield entry

    def sink_sums(self) -> dict[tuple[int, int, str, int], tuple[int, int, int, int]]:
        """Count, first, last and digest of each transaction in each sink partition, recomputed from the topics."""
        from pyspark.sql import functions as f

        rows = self.visible.groupBy("source_partition", "start", "topic", "sink_partition").agg(
            f.count("*").alias("n"),
            f.min("sink_offset").alias("low"),
            f.max("sink_offset").alias("high"),
            f.sum(f.col("digest").cast("decimal(38,0)")).alias("sum"),
        )
        return {
            (row.source_partition, row.start, row.topic, row.sink_partition): (
                row.n,
                row.low,
                row.high,
                0 if row.topic == self.names.dead_letters else int(row.sum) % 2**64,
            )
            for row in rows.toLocalIterator()
        }

    def values_recompute(self) -> Finding:
        """The transform, run again on the source and cut elsewhere, gives the same outputs: a difference of multisets
        both ways, which trusts nothing that the sink wrote about itself."""
        from pyspark.sql import functions as f

        name = "values_recompute"
        if not self.pipeline.deterministic:
            return Finding(name, True, "not evaluated: the pipeline says that it is not deterministic", evaluated=False)
        again = self.outputs_again()
        actual = self.sink.where(f.col("topic").isin(self.sinks)).select("topic", "digest")
        counted = (
            again.withColumn("n", f.lit(1))
            .unionByName(actual.withColumn("n", f.lit(-1)))
            .groupBy("topic", "digest")
            .agg(f.sum("n").alias("n"))
        )
        nothing = f.lit(0)
        totals = counted.agg(
            f.coalesce(f.sum(f.greatest("n", nothing)), nothing).alias("lost"),
            f.coalesce(f.sum(f.greatest(-f.col("n"), nothing)), nothing).alias("more"),
        ).collect()[0]
        more = 0 if self.pipeline.shared_sink else int(totals.more)
        if not totals.lost and not more:
            return Finding(name, True, "running the transform again gives what the sink holds")
        detail = f"compared with running the transform again, {totals.lost} outputs are lost and {more} are too many"
        return Finding(name, False, detail, (f"lost: {totals.lost}", f"too many: {more}"))

    def outputs_again(self) -> "DataFrame":
        """Topic and digest of every output of the transform, with ranges cut at other places than the run's."""
        if not self.retained:
            return self.spark.createDataFrame([], "topic string, digest long")
        cuts = {"minPartitions": str(4 * len(self.retained) + 1)}
        rows = travelling(self.pipeline.transform(self.transform_input(**cuts)))
        if "error" in rows.columns:
            rows = rows.where("error is null")
        if "skip" in rows.columns:
            rows = rows.where("skip is null or not skip")
        return rows.select(topic_column(rows, self.pipeline.sinks[0].name, self.names.sink).alias("topic"), "digest")

    def source_is_unique(self) -> Finding:
        from pyspark.sql import functions as f

        name = "source_is_unique"
        if not self.retained:
            return Finding(name, True, "nothing read yet", severity="warning")
        key = f.expr(self.pipeline.unique_by).cast("binary")
        read = read_ranges(self.spark, self.connection, self.pipeline.source.name, self.retained)
        keys = read.select(key.alias("business_key")).where("business_key is not null")
        counted = keys.groupBy(f.xxhash64("business_key").alias("h")).agg(
            f.count("*").alias("records"), f.first("business_key").cast("string").alias("business_key")
        )
        found = [counted.where("records > 1").drop("h")]
        return from_frames(name, found, "no business key twice", "business keys more than once", "warning")


def from_frames(name: str, frames: list["DataFrame"], holds: str, broken: str, severity: str = "error") -> Finding:
    """A finding from frames of counter-examples: all are counted, the first few are shown."""
    examples: list[str] = []
    count = 0
    for frame in frames:
        rows = frame.limit(SHOWN).collect()
        if rows:
            count += frame.count()
            examples += [", ".join(f"{k}={v}" for k, v in row.asDict().items()) for row in rows]
    return Finding(name, not count, f"{count} {broken}" if count else holds, tuple(examples[:SHOWN]), severity)


def above(named: "DataFrame", topics: dict[str, dict[int, Bounds]]) -> "DataFrame":
    """Without what retention removed from a sink: that is no longer provable, neither green nor red."""
    from pyspark.sql import functions as f

    for topic, partitions in topics.items():
        for partition, there in partitions.items():
            if there.start:
                here = (f.col("topic") == topic) & (f.col("sink_partition") == partition)
                named = named.where(~(here & (f.col("sink_offset") < there.start)))
    return named


def stable_group_offset(reader: SourceReader, partition: int) -> Iterator[int | None]:
    """The group offset, or nothing while an open transaction holds it: `no_open_transactions` tells of that one."""
    try:
        yield reader.group_offset(partition, patience=5)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._TIMED_OUT:
            raise


def unfold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Provenance messages in, one row per output or skip out."""
    for batch in batches:
        for value in batch["value"].to_pylist():
            found = provenance.load(value)
            rows = len(found.source_offsets)
            yield pa.record_batch(
                {
                    "source_partition": pa.array([found.source_partition] * rows, pa.int32()),
                    "start": pa.array([found.start] * rows, pa.int64()),
                    "topic": pa.array([found.topic] * rows, pa.string()),
                    "sink_partition": pa.array([found.partition] * rows, pa.int32()),
                    "sink_offset": pa.array(found.sink_offsets),
                    "source_offset": pa.array(found.source_offsets),
                    "sequence": pa.array(found.sequences),
                }
            )


def misrouted(counts: dict[str, int]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Keyed records that are not where their key says."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keyed = batch.filter(batch["key"].is_valid())
            for topic in set(keyed["topic"].to_pylist()):
                rows = keyed.filter(pa.compute.equal(keyed["topic"], topic))
                expected = partitions_of(rows["key"], counts[topic])
                wrong = pa.array(expected != rows["sink_partition"].to_numpy())
                bad = rows.drop_columns(["key"]).append_column("expected", pa.array(expected)).filter(wrong)
                if bad.num_rows:
                    yield bad

    return task


def topic_column(rows: "DataFrame", default: str, name: Callable[[str], str]) -> "Column":
    from pyspark.sql import functions as f

    if "topic" not in rows.columns:
        return f.lit(name(default))
    suffix = name("")
    return f.concat(f.coalesce("topic", f.lit(default)), f.lit(suffix))
