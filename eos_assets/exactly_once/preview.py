"""A few source records and what the transform makes of them, side by side. Writes nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.exactly_once.job import OffsetRange
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.shape import check_shape
from eos_assets.exactly_once.source import records
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True)
class Preview:
    """One source record and its results."""

    source: "Row"
    results: list["Row"]


def sample_records(spark: "SparkSession", rows: list[tuple[object, object]]) -> "DataFrame":
    """`records` as a transform gets them, made of (key, value) pairs: for unit tests, without Kafka."""
    from pyspark.sql import functions as f

    numbered = [(k, v, n) for n, (k, v) in enumerate(rows)]
    frame = spark.createDataFrame(numbered, "key string, value string, n long")
    return frame.select(
        f.col("key").cast("binary").alias("key"),
        f.col("value").cast("binary").alias("value"),
        f.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        f.current_timestamp().alias("timestamp"),
        f.struct(f.lit(0).alias("partition"), f.col("n").alias("offset"), f.col("n").alias("ordinal")).alias("origin"),
    )


def preview(pipeline: Pipeline, spark: "SparkSession", connection: Connection, count: int) -> list[Preview]:
    """The last `count` records of each partition, at most `count` in all."""
    there = bounds(connection, pipeline.source.name)
    ranges = [OffsetRange(p, max(b.start, b.stable - count), b.stable) for p, b in there.items() if b.stable > b.start]
    if not ranges:
        return []
    source = records(spark, connection, pipeline.source.name, ranges)
    result = pipeline.transform(source)
    check_shape(result, pipeline.name)
    inputs = source.orderBy("origin.offset", "origin.partition").limit(count).collect()
    chosen = {(row.origin.partition, row.origin.offset) for row in inputs}
    by_origin: dict[tuple[int, int], list[Row]] = {}
    for row in result.collect():
        at = (row.origin.partition, row.origin.offset)
        if at in chosen:
            by_origin.setdefault(at, []).append(row)
    return [Preview(row, by_origin.get((row.origin.partition, row.origin.offset), [])) for row in inputs]
