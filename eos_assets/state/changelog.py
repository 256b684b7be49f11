"""The changelogs of a stateful pipeline: compacted topics that hold its state as JSON.

The value of a record is `{"v": 1, "state": {…}}`, or null for a key that was removed; see docs/contract.md.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.offsets import OffsetRange, bounds
from eos_assets.transform.source import read_ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

VERSION = 1
#: The numbers of the stores.
STATE, SEEN = 0, 1
#: Microseconds are kept; a value that cannot be read is an error, never a null.
JSON_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "mode": "FAILFAST",
}
#: The state of a business key: the offset of its last record.
SEEN_COLUMNS = "offset bigint"


@dataclass(frozen=True)
class Store:
    """One changelog: its number in the rows that a task gets, its topic, and its columns."""

    number: int
    topic: str
    columns: str


def stores(pipeline: Pipeline) -> list[Store]:
    """The stores of a pipeline: its state and, if it skips repeats, the business keys that it has seen."""
    kinds = (pipeline.state, SEEN_COLUMNS)
    return [Store(number, topic, kinds[number]) for number, topic in enumerate(pipeline.changelogs())]


def empty_state(spark: "SparkSession", store: Store) -> "DataFrame":
    """The state before the first record."""
    return spark.createDataFrame([], f"partition int, key binary, {store.columns}")


def column_types(spark: "SparkSession", store: Store) -> dict[str, str]:
    """The columns of the state and their types, as Spark names them."""
    try:
        frame = empty_state(spark, store)
        columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields[2:]}
    except Exception as failure:
        raise EosError(
            f"state='{store.columns}' is not valid: {str(failure).splitlines()[0]}",
            "Declare the columns of the state as in SQL, for example state='balance decimal(38,2), booked timestamp'.",
        ) from failure
    if reserved := {"key", "deleted", "partition"} & set(columns):
        raise EosError(
            f"state='{store.columns}' declares the column `{reserved.pop()}`, which every state has.", "Rename it."
        )
    return columns


def encode(names: list[str]) -> "Column":
    """The value of a changelog record, from the columns of a state."""
    from pyspark.sql import functions as f

    version = f.lit(VERSION).alias("v")
    return f.to_json(f.struct(version, f.struct(*names).alias("state")), JSON_OPTIONS).cast("binary")


def read_changelog(context: PipelineContext, store: Store, upto: dict[int, int], after: dict[int, int]) -> "DataFrame":
    """Read the records of a changelog after some offsets and up to others: partition, offset, key, value."""
    chosen = [p for p, last in upto.items() if last >= 0]
    retained = bounds(context.kafka, store.topic, chosen) if chosen else {}
    ranges = [OffsetRange(p, max(retained[p].start, after.get(p, -1) + 1), upto[p] + 1) for p in chosen]
    if any(r.size for r in ranges):
        records = read_ranges(context.spark, context.kafka, store.topic, ranges)
        return records.select("partition", "offset", "key", "value")
    return context.spark.createDataFrame([], "partition int, offset long, key binary, value binary")


def latest_values(rows: "DataFrame", *, by_key: bool = False) -> "DataFrame":
    """The last value of each key, without the deleted ones: partition, key, value. Spark sorts and spills.

    Args:
        rows: partition, offset, key, value.
        by_key: a key is in one partition only. Then a join with the records by key needs no second exchange.
    """
    from pyspark.sql import functions as f

    if by_key:
        last = rows.groupBy("key").agg(f.max(f.struct("offset", "value", "partition")).alias("last"))
        return last.where("last.value is not null").select("last.partition", "key", "last.value")
    last = rows.groupBy("partition", "key").agg(f.max(f.struct("offset", "value")).alias("last"))
    return last.where("last.value is not null").select("partition", "key", "last.value")


def decode(rows: "DataFrame", store: Store) -> "DataFrame":
    """The values as columns of the state, after partition and key."""
    from pyspark.sql import functions as f

    schema = f"v int, state struct<{store.columns}>"
    read = f.from_json(f.col("value").cast("string"), schema, JSON_OPTIONS).alias("read")
    known = f.when(f.col("read.v") == VERSION, f.lit(True)).otherwise(
        f.raise_error(f.concat(f.lit(f"{store.topic} holds a state of an unknown version: "), f.col("read.v")))
    )
    return rows.select("partition", "key", read).where(known.cast("boolean")).select("partition", "key", "read.state.*")
