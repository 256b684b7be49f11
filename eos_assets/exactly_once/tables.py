"""The tables that a proof is made of, each read once from its topic by Spark, which keeps them on disk if need be."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eos_assets.exactly_once import provenance
from eos_assets.exactly_once.job import OffsetRange
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.routes import partitions
from eos_assets.exactly_once.shape import digest, travelling
from eos_assets.exactly_once.source import read_ranges, records
from eos_assets.exactly_once.window import Window
from eos_assets.kafka.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MAP_SCHEMA = (
    "source_partition int, start long, topic string, sink_partition int, "
    "sink_offset long, source_offset long, sequence long"
)
EMPTY_TOPIC = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, offset long"
AGAIN_SCHEMA = "topic string, sink_partition int, digest long, source_partition int, source_offset long"
ORIGIN = ["source_partition", "source_offset"]
PLACE = ["topic", "sink_partition", "sink_offset"]
FOR_EVER = 1 << 62


class Tables:
    """Source, map and sink within one window.

    Attributes:
        source: source_partition, source_offset of every visible source record.
        map: what the maps of the window's transactions say.
        sink: topic, sink_partition, sink_offset, key, digest of every visible record, dead letters too.
        delivered: sink and map side by side. No digest: the record is not visible. No origin: no map names it.
    """

    def __init__(
        self, pipeline: Pipeline, spark: "SparkSession", connection: Connection, mode: Mode, window: Window
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.mode = mode
        self.window = window
        self.names = pipeline.names(mode)
        self.sinks = [self.names.sink(sink.name) for sink in pipeline.sinks]
        self.retained = [w.source for w in window.partitions.values() if w.source.size]
        self.repeatable = [w.repeatable for w in window.partitions.values() if w.repeatable.size]

    def load(self, isolation: str) -> None:
        from pyspark.sql import functions as f

        self.source = self.source_records().persist()
        self.every_map = self.every_map_row().persist()
        self.map = self.every_map.where("in_scope").drop("in_scope", "newer")
        self.sink = self.sink_records(isolation).persist()
        named = self.every_map.where("sink_offset >= 0")
        joined = self.sink.withColumn("keyed", f.col("key").isNotNull()).drop("key").join(named, PLACE, "full")
        self.delivered = joined.where(f.coalesce("in_scope", ~self.faded())).drop("in_scope", "newer").persist()
        self.visible = self.delivered.where("digest is not null and source_offset is not null")

    def unpersist(self) -> None:
        for frame in (self.source, self.every_map, self.sink, self.delivered):
            frame.unpersist()

    @functools.cached_property
    def result_columns(self) -> list[str]:
        """The columns of the transform's result."""
        everywhere = [OffsetRange(p, 0, 1) for p in self.window.partitions]
        source = records(self.spark, self.connection, self.pipeline.source.name, everywhere)
        return list(self.pipeline.transform(source).columns)

    def source_records(self) -> "DataFrame":
        if not self.retained:
            return self.spark.createDataFrame([], "source_partition int, source_offset long")
        read = read_ranges(self.spark, self.connection, self.pipeline.source.name, self.retained)
        return read.selectExpr("partition as source_partition", "offset as source_offset")

    def every_map_row(self) -> "DataFrame":
        """All maps that can be read. What belongs to other transactions than the window's is not in its scope."""
        from pyspark.sql import functions as f

        ranges = self.window.ranges(self.names.provenance)
        if not any(r.size for r in ranges):
            return self.spark.createDataFrame([], f"{MAP_SCHEMA}, in_scope boolean, newer boolean")
        read = read_ranges(self.spark, self.connection, self.names.provenance, ranges)
        rows = read.select("value").mapInArrow(unfold, MAP_SCHEMA)
        within = f.expr("start >= scope_start and start < scope_end")
        return (
            rows.join(f.broadcast(self.scopes()), "source_partition")
            .withColumns({"in_scope": within, "newer": f.expr("start >= scope_end")})
            .drop("scope_start", "scope_end")
        )

    def scopes(self) -> "DataFrame":
        exact = self.mode is Mode.EXACTLY_ONCE
        rows = [(p, w.start, w.end if exact else FOR_EVER) for p, w in self.window.partitions.items()]
        return self.spark.createDataFrame(rows, "source_partition int, scope_start long, scope_end long")

    def sink_records(self, isolation: str) -> "DataFrame":
        from pyspark.sql import functions as f

        frames = [
            self.topic(name, isolation).withColumn("topic", f.lit(name))
            for name in (*self.sinks, self.names.dead_letters)
        ]
        return functools.reduce(lambda one, other: one.unionByName(other), frames).select(
            "topic",
            f.col("partition").alias("sink_partition"),
            f.col("offset").alias("sink_offset"),
            "key",
            digest(with_headers="headers" in self.result_columns).alias("digest"),
        )

    def topic(self, name: str, isolation: str) -> "DataFrame":
        ranges = self.window.ranges(name, isolation)
        if not any(r.size for r in ranges):
            return self.spark.createDataFrame([], EMPTY_TOPIC)
        read = read_ranges(self.spark, self.connection, name, ranges, **{"kafka.isolation.level": isolation})
        return read.select("key", "value", "headers", "partition", "offset")

    def faded(self) -> "Column":
        """Whether a sink record may belong to a transaction that is no longer provable."""
        from pyspark.sql import functions as f

        old = f.lit(False)
        for (topic, partition), last in self.window.faded.items():
            old |= (f.col("topic") == topic) & (f.col("sink_partition") == partition) & (f.col("sink_offset") <= last)
        return old

    def again(self) -> "DataFrame":
        """Every output of the transform, run once more with ranges cut at other places than the run's: the topic and
        partition where it belongs, its digest and its origin."""
        if not self.repeatable:
            return self.spark.createDataFrame([], AGAIN_SCHEMA)
        cuts = {"minPartitions": str(4 * len(self.repeatable) + 1)}
        source = records(self.spark, self.connection, self.pipeline.source.name, self.repeatable, **cuts)
        rows = travelling(self.pipeline.transform(source))
        if "error" in rows.columns:
            rows = rows.where("error is null")
        if "skip" in rows.columns:
            rows = rows.where("skip is null or not skip")
        counts = {topic: len(self.window.bounds[topic]) for topic in self.sinks}
        routed = rows.withColumn("topic", topic_column(rows, self.sinks[0], self.names.sink))
        columns = ["topic", "key", "o_partition", "o_offset", "digest", *({"partition"} & set(rows.columns))]
        return routed.select(*columns).mapInArrow(placed(counts), AGAIN_SCHEMA)

    def origins_again(self) -> "DataFrame":
        """The origins that the transform keeps, for one that drops records."""
        source = records(self.spark, self.connection, self.pipeline.source.name, self.repeatable)
        return self.pipeline.transform(source).selectExpr(
            "origin.partition as source_partition", "origin.offset as source_offset"
        )

    def repeated(self) -> "Column":
        """Whether running the transform again must give this record: not if its origin is gone, or was read by other
        code. What no map names must be given by it, or nobody knows where it comes from."""
        from pyspark.sql import functions as f

        told = f.lit(True)
        for partition, w in self.window.partitions.items():
            here = f.coalesce(f.col("source_partition") == partition, f.lit(False))
            told &= ~here | (f.col("source_offset") >= w.repeatable.start)
        return told


def topic_column(rows: "DataFrame", default: str, name: Callable[[str], str]) -> "Column":
    from pyspark.sql import functions as f

    if "topic" not in rows.columns:
        return f.lit(default)
    return f.coalesce(f.concat("topic", f.lit(name(""))), f.lit(default))


Batches = Iterable[pa.RecordBatch]


def unfold(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Provenance messages in, one row per output or skip out."""
    for batch in batches:
        for value in batch["value"].to_pylist():
            found = provenance.load(value)
            rows = len(found.source_offsets)
            yield pa.record_batch(
                {
                    "source_partition": constant(found.source_partition, rows, pa.int32()),
                    "start": constant(found.start, rows, pa.int64()),
                    "topic": constant(found.topic, rows, pa.string()),
                    "sink_partition": constant(found.partition, rows, pa.int32()),
                    "sink_offset": pa.array(found.sink_offsets),
                    "source_offset": pa.array(found.source_offsets),
                    "sequence": pa.array(found.sequences),
                }
            )


def constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def placed(counts: dict[str, int]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Outputs in, with the partition where each belongs out."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            encoded = batch["topic"].dictionary_encode()
            for number, topic in enumerate(encoded.dictionary.to_pylist()):
                rows = batch.filter(pa.array(encoded.indices.to_numpy() == number))
                given = rows["partition"] if "partition" in rows.schema.names else None
                where = partitions(rows["key"], given, rows["o_partition"].to_numpy(), counts.get(topic, 1))
                yield pa.record_batch(
                    {
                        "topic": rows["topic"],
                        "sink_partition": pa.array(where.astype(np.int32)),
                        "digest": rows["digest"],
                        "source_partition": rows["o_partition"],
                        "source_offset": rows["o_offset"],
                    }
                )

    return task
