"""Stateful functions under test, and the same in plain Python."""

import itertools
import uuid
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.stateful import stateful
from eos_assets.declare.topic import Topic
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.state.changelog import decode
from eos_assets.state.fold import Folding
from eos_assets.state.state import apply_changes

#: The number of offsets that the sliding count covers.
SPAN = 20


def sliding(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    """For each record, how many of its key came in the last SPAN offsets; the value `close` forgets the key."""
    closing = f.when(f.col("value").cast("string") == "close", f.col("origin.offset"))
    new = records.groupBy("key").agg(
        f.collect_list("origin.offset").alias("new"), f.collect_list(closing).alias("ends")
    )
    before = f.coalesce("offsets", f.array().cast("array<bigint>"))
    known = new.join(state, "key", "left")
    keys = known.select("key", f.array_sort(f.concat(before, "new")).alias("all"), "ends")
    at = f.col("origin.offset")
    closed = f.coalesce(f.array_max(f.filter("ends", lambda o: o < at)), f.lit(-1))
    near = f.filter("all", lambda o: (o <= at) & (o > at - SPAN) & (o > closed))
    outputs = records.join(keys, "key").select("key", f.size(near).cast("string").alias("value"), "origin")
    last = f.coalesce(f.array_max("ends"), f.lit(-1))
    alive = f.filter("all", lambda o: (o > f.array_max("all") - SPAN) & (o > last))
    return outputs, keys.select("key", alive.alias("offsets"), (f.size(alive) == 0).alias("deleted"))


def declare_sliding(partitions: int = 2, **declared: Any) -> Pipeline:
    """The sliding count on topics that no other test has."""
    name = f"t{uuid.uuid4().hex[:10]}"
    source = declared.pop("source", None) or Topic(f"{name}-source", partitions)
    return stateful(name=name, source=source, sink=Topic(f"{name}-sink", 2), state="offsets array<bigint>", **declared)(
        sliding
    )


class Counts:
    """The sliding count of one partition, kept in plain Python."""

    def __init__(self) -> None:
        self.offsets: dict[bytes, list[int]] = {}

    def count(self, key: bytes, value: bytes, offset: int) -> bytes:
        near = [o for o in self.offsets.get(key, []) if o > offset - SPAN]
        self.offsets[key] = [*near, offset]
        count = b"%d" % len(self.offsets[key])
        if value == b"close":
            del self.offsets[key]
        return count


Record = tuple[str, str]


def folded(
    pipeline: Pipeline, spark: SparkSession, records: list[Record], cuts: Iterable[int]
) -> tuple[list[str], list[str]]:
    """Outputs and final state of one partition, folded range by range: all that a run does, without Kafka."""
    (*places,) = sorted({0, *cuts, len(records)})
    stores = Folding(pipeline, 1, []).stores
    values = [spark.createDataFrame([], "partition int, key binary, value binary") for _ in stores]
    outputs: list[str] = []
    for low, high in itertools.pairwise(places):
        rows = [(key, value, offset) for offset, (key, value) in enumerate(records)][low:high]
        frame = spark.createDataFrame(rows, "key string, value string, offset long").select(
            f.col("key").cast("binary"),
            f.col("value").cast("binary"),
            f.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
            f.current_timestamp().alias("timestamp"),
            f.struct(f.lit(0).alias("partition"), "offset", f.col("offset").alias("ordinal")).alias("origin"),
        )
        loaded = [decode(rows, store) for rows, store in zip(values, stores, strict=True)]
        result = Folding(pipeline, 1, [OffsetRange(0, 0, high)]).fold(frame, loaded)
        columns = [c for c in ("value", "error", "skip", "repeat") if c in result.outputs.columns]
        got = result.outputs.select("o_offset", "key", *columns).orderBy("o_offset").collect()
        outputs += [str(row.asDict()) for row in got]
        values = [
            spark.createDataFrame(apply_changes(before, changed).collect(), "partition int, key binary, value binary")
            for before, changed in zip(values, result.changes, strict=True)
        ]
    return outputs, sorted(str(row) for rows in values for row in rows.collect())
