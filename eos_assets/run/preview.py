"""Shows a few source records and what the transform makes of them, side by side. Nothing is written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import OffsetRange, bounds
from eos_assets.kafka.reader import open_consumer, read_last_records, read_range
from eos_assets.run.partition_alignment import narrow_path
from eos_assets.run.plan import make_plan
from eos_assets.run.preflight.state import check_state
from eos_assets.state.changelog import empty_state
from eos_assets.state.fold import Folding
from eos_assets.state.state import State
from eos_assets.transform.determinism import check_determinism
from eos_assets.transform.result_schema import apply_transform, row_without_origin
from eos_assets.transform.source import read_records
from eos_assets.transform.spark_errors import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


#: The number of results of one record that are fetched, one more than is worth showing: a file may give a million.
RESULTS = 21


@dataclass(frozen=True)
class Preview:
    """One source record and its first results."""

    source: "Row"
    results: list["Row"]


def preview(pipeline: Pipeline, spark: "SparkSession", connection: Connection, count: int) -> list[Preview]:
    """Show up to `count` of the last source records; for a stateful pipeline the next ones that a run would fold, if
    there are any."""
    context = PipelineContext(pipeline, spark, connection)
    frames = fold_records(context, count) if pipeline.stateful else transform_records(context, count)
    if frames is None:
        return []
    source, result = frames
    return side_by_side(pipeline, source, result, count)


def transform_records(context: PipelineContext, count: int) -> tuple["DataFrame", "DataFrame"] | None:
    """The last records and what the transform makes of them; None if there are no records. Refuses what a run
    refuses."""
    pipeline, topic = context.pipeline, context.pipeline.source.name
    ends = {p: each.stable for p, each in bounds(context.kafka, topic).items() if each.stable > each.start}
    firsts = starts_of_last_records(context.kafka, topic, ends, count)
    ranges = [OffsetRange(p, first, ends[p]) for p, first in firsts.items()]
    if not ranges:
        return None
    source = read_records(context.spark, context.kafka, topic, ranges)
    result = apply_transform(pipeline, source, ranges)
    narrow_path(result, pipeline)
    check_determinism(pipeline, source, [result])
    return source, result


def fold_records(context: PipelineContext, count: int) -> tuple["DataFrame", "DataFrame"] | None:
    """What the next run would make of the first `count` records from each position on, from the present state. Where
    nothing lags, the last records are folded again, with all that came before them."""
    from pyspark.sql import functions as f

    check_state(context)
    pipeline, kafka, topic = context.pipeline, context.kafka, context.pipeline.source.name
    plans = [plan for plan in make_plan(pipeline, kafka) if plan.stable_end > plan.log_start]
    ranges = next_ranges(kafka, topic, [plan.range for plan in plans], count)
    state = State(context)
    if ranges:
        chosen = {r.partition for r in ranges}
        source, rows = fold(context, ranges, state.load({p.partition: p.tail for p in plans if p.partition in chosen}))
        return source, rows
    firsts = starts_of_last_records(kafka, topic, {p.partition: p.stable_end for p in plans}, count)
    if not firsts:
        return None
    ranges = [OffsetRange(p.partition, p.log_start, p.stable_end) for p in plans]
    source, rows = fold(context, ranges, [empty_state(context.spark, store) for store in state.stores])
    pairs = [f.lit(number) for pair in firsts.items() for number in pair]
    return source.where(f.col("origin.offset") >= f.create_map(*pairs)[f.col("origin.partition")]), rows


def fold(
    context: PipelineContext, ranges: list[OffsetRange], loaded: list["DataFrame"]
) -> tuple["DataFrame", "DataFrame"]:
    """The records of some ranges, and the outputs of the fold over them. Refuses what a run refuses."""
    from pyspark.sql import functions as f

    pipeline, topic = context.pipeline, context.pipeline.source.name
    source = read_records(context.spark, context.kafka, topic, ranges)
    folded = Folding(pipeline, len(context.kafka.partitions(topic)), ranges).fold(source, loaded)
    rows = folded.outputs
    narrow_path(rows, pipeline)
    check_determinism(pipeline, source, [rows, *folded.changes])
    names = [name for name in ("key", "value", "topic", "partition", "error", "skip") if name in rows.columns]
    origin = f.struct(f.col("o_partition").alias("partition"), f.col("o_offset").alias("offset")).alias("origin")
    return source, rows.select(*names, origin)


def starts_of_last_records(connection: Connection, topic: str, ends: dict[int, int], count: int) -> dict[int, int]:
    """Partition → the offset at which its share of the last `count` visible records starts, without partitions that
    have none. The last offsets may be markers and aborted records."""
    consumer = open_consumer(connection)
    try:
        messages = {p: read_last_records(consumer, topic, p, end, count) for p, end in ends.items()}
    finally:
        consumer.close()
    shares = share(count, {p: len(last) for p, last in messages.items()})
    return {p: last[-shares[p]].offset() or 0 for p, last in messages.items() if shares[p]}


def next_ranges(connection: Connection, topic: str, ranges: list[OffsetRange], count: int) -> list[OffsetRange]:
    """The ranges up to their share of the first `count` visible records, without those that have none."""
    consumer = open_consumer(connection)
    try:
        messages = [(r, read_range(consumer, topic, r.partition, r.start, r.end, count)) for r in ranges if r.size]
    finally:
        consumer.close()
    shares = share(count, {r.partition: len(first) for r, first in messages})
    return [
        OffsetRange(r.partition, r.start, (first[shares[r.partition] - 1].offset() or 0) + 1)
        for r, first in messages
        if shares[r.partition]
    ]


def share(count: int, available: dict[int, int]) -> dict[int, int]:
    """How many of `count` records each partition shows: the same number, or fewer if it has fewer."""
    shares = dict.fromkeys(available, 0)
    while remaining := [p for p in available if shares[p] < available[p]]:
        for partition in remaining:
            if sum(shares.values()) == count:
                return shares
            shares[partition] += 1
    return shares


def side_by_side(pipeline: Pipeline, source: "DataFrame", result: "DataFrame", count: int) -> list[Preview]:
    inputs = source.orderBy("origin.partition", "origin.offset").limit(count).collect()
    results: dict[tuple[int, int], list[Row]] = {(row.origin.partition, row.origin.offset): [] for row in inputs}
    for row in collect_results(pipeline, result):
        if row.origin is None:
            raise row_without_origin(pipeline)
        of_record = results.get((row.origin.partition, row.origin.offset))
        if of_record is not None:
            of_record.append(row)
    return [Preview(row, results[row.origin.partition, row.origin.offset]) for row in inputs]


def collect_results(pipeline: Pipeline, result: "DataFrame") -> list["Row"]:
    """The first results of each record. Strings travel as bytes, because a string of Spark may hold any bytes."""
    texts = [field.name for field in result.schema.fields if field.dataType.simpleString() == "string"]
    columns = [f"CAST(`{name}` AS binary) AS `{name}`" if name in texts else f"`{name}`" for name in result.columns]
    raw = result.selectExpr(*columns)
    try:
        rows = raw.mapInArrow(first_of_each_origin, raw.schema).collect()
    except Exception as failure:
        raise EosError(
            f"The transform of {pipeline.name} raises: {classify(failure).described}. Nothing was written.",
            "Correct it, or let it return an `error` for such records.",
        ) from failure
    return [decode_texts(row, texts) for row in rows]


def decode_texts(row: "Row", texts: list[str]) -> "Row":
    """A row with the bytes of these columns as text. Bytes that are not UTF-8 are replaced."""
    from pyspark.sql import Row

    columns = row.asDict()
    decoded = {name: bytes(columns[name]).decode(errors="replace") for name in texts if columns[name] is not None}
    return Row(**{**columns, **decoded})


def first_of_each_origin(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep the first RESULTS rows of each source record."""
    last, count = None, 0
    for batch in batches:
        kept = []
        for index, origin in enumerate(batch["origin"].to_pylist()):
            place = (origin["partition"], origin["offset"]) if origin else None
            last, count = place, count + 1 if place == last else 1
            if count <= RESULTS:
                kept.append(index)
        yield batch.take(pa.array(kept, pa.int64()))
