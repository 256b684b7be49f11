"""A few source records and what the transform makes of them, side by side. Writes nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.exactly_once.job import OffsetRange
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.exactly_once.shape import check_shape
from eos_assets.exactly_once.source import records
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


#: So many results of one record are fetched, one more than is worth showing; a file may give a million.
RESULTS = 21


@dataclass(frozen=True)
class Preview:
    """One source record and its first results."""

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
    for row in result.mapInArrow(heads, result.schema).collect():
        at = (row.origin.partition, row.origin.offset)
        if at in chosen:
            by_origin.setdefault(at, []).append(row)
    return [Preview(row, by_origin.get((row.origin.partition, row.origin.offset), [])) for row in inputs]


def heads(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first rows of each origin."""
    before, count = None, 0
    for batch in batches:
        kept = []
        for index, origin in enumerate(batch["origin"].field("offset").to_pylist()):
            before, count = origin, count + 1 if origin == before else 1
            if count <= RESULTS:
                kept.append(index)
        yield batch.take(pa.array(kept, pa.int64()))
