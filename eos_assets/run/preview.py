"""A few source records and what the transform makes of them, side by side. Writes nothing."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka import reader as tail
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.log.ranges import OffsetRange
from eos_assets.run.partition_alignment import narrow_path
from eos_assets.run.plan import make_plan
from eos_assets.run.preflight.topics import check_state
from eos_assets.state.changelog import empty
from eos_assets.state.fold import Folding
from eos_assets.state.store import State
from eos_assets.transform.determinism import check_determinism
from eos_assets.transform.result_schema import originless, transformed
from eos_assets.transform.source import records
from eos_assets.transform.spark_errors import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


#: So many results of one record are fetched, one more than is worth showing; a file may give a million.
RESULTS = 21


@dataclass(frozen=True)
class Preview:
    """One source record and its first results."""

    source: "Row"
    results: list["Row"]


def sample_records(spark: "SparkSession", rows: Sequence[tuple[object, object]]) -> "DataFrame":
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
    if pipeline.stateful:
        return preview_of_fold(pipeline, spark, connection, count)
    there = bounds(connection, pipeline.source.name)
    ends = {p: b.stable for p, b in there.items() if b.stable > b.start}
    firsts = last_offsets(connection, pipeline.source.name, ends, count)
    ranges = [OffsetRange(p, first, ends[p]) for p, first in firsts.items()]
    if not ranges:
        return []
    source = records(spark, connection, pipeline.source.name, ranges)
    result = transformed(pipeline, source, ranges)
    narrow_path(result, pipeline)  # refuses what a run refuses
    check_determinism(pipeline, source, [result])
    return side_by_side(pipeline, source, result, count)


def last_offsets(connection: Connection, topic: str, ends: dict[int, int], count: int) -> dict[int, int]:
    """Partition → where its last `count` visible records begin; without those that have none. The last offsets may be
    markers and aborted records."""
    consumer = tail.open_consumer(connection)
    try:
        found = {p: tail.read_last_records(consumer, topic, p, end, count) for p, end in ends.items()}
    finally:
        consumer.close()
    return {p: messages[0].offset() or 0 for p, messages in found.items() if messages}


def next_ranges(connection: Connection, topic: str, ranges: list[OffsetRange], count: int) -> list[OffsetRange]:
    """The ranges cut behind their first `count` visible records; without those that have none."""
    consumer = tail.open_consumer(connection)
    try:
        found = [(r, tail.read_range(consumer, topic, r.partition, r.start, r.end, count)) for r in ranges if r.size]
    finally:
        consumer.close()
    return [OffsetRange(r.partition, r.start, (messages[-1].offset() or 0) + 1) for r, messages in found if messages]


def side_by_side(pipeline: Pipeline, source: "DataFrame", result: "DataFrame", count: int) -> list[Preview]:
    inputs = source.orderBy("origin.offset", "origin.partition").limit(count).collect()
    chosen = {(row.origin.partition, row.origin.offset) for row in inputs}
    by_origin: dict[tuple[int, int], list[Row]] = {}
    texts = [field.name for field in result.schema.fields if field.dataType.simpleString() == "string"]
    columns = [f"CAST(`{name}` AS binary) AS `{name}`" if name in texts else f"`{name}`" for name in result.columns]
    raw = result.selectExpr(*columns)
    try:
        rows = [legible(row, texts) for row in raw.mapInArrow(heads, raw.schema).collect()]
    except Exception as failure:
        raise EosError(
            f"The transform of {pipeline.name} raises: {classify(failure).described}",
            "Correct it, or let it return an `error` for such records. Nothing was written.",
        ) from failure
    for row in rows:
        if row.origin is None:
            raise originless(pipeline)
        at = (row.origin.partition, row.origin.offset)
        if at in chosen:
            by_origin.setdefault(at, []).append(row)
    return [Preview(row, by_origin.get((row.origin.partition, row.origin.offset), [])) for row in inputs]


def legible(row: "Row", texts: list[str]) -> "Row":
    """A row with these columns as text, as far as they are: a string of Spark may hold any bytes."""
    from pyspark.sql import Row

    found = row.asDict()
    read = {name: bytes(found[name]).decode(errors="replace") for name in texts if found[name] is not None}
    return Row(**{**found, **read})


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


def preview_of_fold(pipeline: Pipeline, spark: "SparkSession", connection: Connection, count: int) -> list[Preview]:
    """What the next run would make of the first `count` records behind each position, from the state of now. Where
    nothing lags, the last ones are folded again, with all that came before them."""
    from pyspark.sql import functions as f

    check_state(pipeline, connection, Mode.EXACTLY_ONCE)
    topic = pipeline.source.name
    plans = [plan for plan in make_plan(pipeline, connection) if plan.stable_end > plan.log_start]
    lagging = next_ranges(connection, topic, [plan.range for plan in plans], count)
    firsts = {} if lagging else last_offsets(connection, topic, {p.partition: p.stable_end for p in plans}, count)
    if not lagging and not firsts:
        return []
    partitions = len(connection.partitions(topic))
    state = State(pipeline, spark, connection)
    if lagging:
        ranges = lagging
        chosen = {r.partition for r in ranges}
        loaded = state.at({p.partition: p.tail for p in plans if p.partition in chosen})
    else:
        ranges = [OffsetRange(p.partition, p.log_start, p.stable_end) for p in plans]
        loaded = [empty(spark, store) for store in state.stores]
    source = records(spark, connection, topic, ranges)
    folded = Folding(pipeline, partitions, ranges).fold(source, loaded)
    rows = folded.outputs
    narrow_path(rows, pipeline)
    check_determinism(pipeline, source, [rows, *folded.changes])
    names = [name for name in ("key", "value", "topic", "partition", "error", "skip") if name in rows.columns]
    origin = f.struct(f.col("o_partition").alias("partition"), f.col("o_offset").alias("offset")).alias("origin")
    if not lagging:
        begins = [f.lit(number) for place in firsts.items() for number in place]
        source = source.where(f.col("origin.offset") >= f.create_map(*begins)[f.col("origin.partition")])
    return side_by_side(pipeline, source, rows.select(*names, origin), count)
