"""The changelogs of a stateful pipeline: state in columns, and the JSON in which a compacted topic keeps it.

The value of a record is `{"v": 1, "state": {…}}`, or null for a key that was removed; see docs/contract.md.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.log.ranges import OffsetRange
from eos_assets.transform.source import read_ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

VERSION = 1
#: The numbers of the stores.
STATE, SEEN = 0, 1
#: Microseconds are kept; what cannot be read is an error, never a null.
JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "mode": "FAILFAST",
}
#: The state of a business key: the offset of its last record.
SEEN_COLUMNS = "offset bigint"


@dataclass(frozen=True)
class Store:
    """One changelog: its number in the rows that travel, its topic, and the columns of what it keeps."""

    number: int
    topic: str
    columns: str


def stores(pipeline: Pipeline) -> list[Store]:
    """The state itself, and the business keys that were seen, if the pipeline skips repeats."""
    kinds = (pipeline.state, SEEN_COLUMNS)
    return [Store(number, topic, kinds[number]) for number, topic in enumerate(pipeline.changelogs())]


def empty(spark: "SparkSession", store: Store) -> "DataFrame":
    """No state at all."""
    return spark.createDataFrame([], f"partition int, key binary, {store.columns}")


def column_types(spark: "SparkSession", store: Store) -> dict[str, str]:
    """The columns of the state and their types, as Spark names them."""
    try:
        frame = empty(spark, store)
        found = {field.name: field.dataType.simpleString() for field in frame.schema.fields[2:]}
    except Exception as failure:
        raise EosError(
            f"`{store.columns}` declares no columns: {str(failure).splitlines()[0]}",
            "Declare the state as in SQL, for example state='balance decimal(38,2), booked timestamp'.",
        ) from failure
    if wrong := {"key", "deleted", "partition"} & set(found):
        raise EosError(
            f"A state cannot have a column `{wrong.pop()}`: that word has its own meaning there.", "Give it another."
        )
    return found


def encoded(names: list[str]) -> "Column":
    """The value of a changelog record, from the columns of a state."""
    from pyspark.sql import functions as f

    version = f.lit(VERSION).alias("v")
    return f.to_json(f.struct(version, f.struct(*names).alias("state")), JSON).cast("binary")


def raw(
    spark: "SparkSession", connection: Connection, store: Store, upto: dict[int, int], after: dict[int, int]
) -> "DataFrame":
    """The records of a changelog behind `after` and up to `upto`: partition, offset, key, value."""
    chosen = [p for p, last in upto.items() if last >= 0]
    starts = {p: there.start for p, there in bounds(connection, store.topic, chosen).items()} if chosen else {}
    ranges = [OffsetRange(p, max(starts[p], after.get(p, -1) + 1), upto[p] + 1) for p in chosen]
    if any(r.size for r in ranges):
        return read_ranges(spark, connection, store.topic, ranges).select("partition", "offset", "key", "value")
    return spark.createDataFrame([], "partition int, offset long, key binary, value binary")


def latest(rows: "DataFrame", *, by_key: bool = False) -> "DataFrame":
    """The last value of each key, without the removed ones: partition, key, value. Spark sorts and spills.

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


def decoded(rows: "DataFrame", store: Store) -> "DataFrame":
    """Values as the columns of the state: partition, key, and those."""
    from pyspark.sql import functions as f

    schema = f"v int, state struct<{store.columns}>"
    read = f.from_json(f.col("value").cast("string"), schema, JSON).alias("read")
    known = f.when(f.col("read.v") == VERSION, f.lit(True)).otherwise(
        f.raise_error(f.concat(f.lit(f"{store.topic} holds a state of an unknown version: "), f.col("read.v")))
    )
    return rows.select("partition", "key", read).where(known.cast("boolean")).select("partition", "key", "read.state.*")
