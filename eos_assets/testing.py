"""Source records without Kafka, and results to compare, for unit tests of transforms."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eos_assets.declare.stateful import empty_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from eos_assets.transform.arrow_function import ArrowFunction

__all__ = ["Rejected", "Result", "Skipped", "batch_results", "empty_state", "results", "sample_batch", "sample_records"]

#: A key or a value: text if it is valid UTF-8, else bytes.
Content = str | bytes | None


@dataclass(frozen=True)
class Rejected:
    """A source record that the transform rejects: it becomes a dead letter."""

    key: Content
    reason: str


@dataclass(frozen=True)
class Skipped:
    """A source record that the transform skips on purpose."""

    key: Content


#: An output as its key and value, or what became of the source record instead.
Result = tuple[Content, Content] | Rejected | Skipped


def sample_records(spark: "SparkSession", rows: Sequence[tuple[Content, Content]]) -> "DataFrame":
    """The `records` of a transform, made of (key, value) pairs."""
    from pyspark.sql import functions as f

    numbered = [(to_bytes(key), to_bytes(value), offset) for offset, (key, value) in enumerate(rows)]
    origin = f.struct(f.lit(0).alias("partition"), f.col("n").alias("offset"), f.col("n").alias("ordinal"))
    return spark.createDataFrame(numbered, "key binary, value binary, n long").select(
        "key",
        "value",
        f.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        f.current_timestamp().alias("timestamp"),
        origin.alias("origin"),
    )


def sample_batch(rows: Sequence[tuple[Content, Content]]) -> "pa.RecordBatch":
    """Source records of one partition as an Arrow pipeline reads them, made of (key, value) pairs."""
    import pyarrow as pa

    from eos_assets.kafka.message_memory import HEADERS

    keys, values = ([to_bytes(row[column]) for row in rows] for column in (0, 1))
    return pa.record_batch(
        {
            "offset": pa.array(range(len(rows)), pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array([int(time.time() * 1000)] * len(rows), pa.int64()),
            "headers": pa.array([[] for _ in rows], HEADERS),
        }
    )


def batch_results(function: "ArrowFunction", batch: "pa.RecordBatch") -> list[Result]:
    """What the function of an Arrow pipeline returned, in the order of the source records."""
    import numpy as np

    rows = function.apply(batch, 0, np.arange(batch.num_rows))
    return [result({**row, "error": to_text(row.get("error"))}) for row in rows.to_pylist()]


def results(rows: "DataFrame") -> list[Result]:
    """What a transform returned, in the order of the source records."""
    returned = [row.asDict() for row in rows.collect()]
    return [result(row) for row in sorted(returned, key=position)]


def position(row: dict[str, Any]) -> tuple[int, int, int]:
    """The place of a row in the order of the source records and of the outputs of each."""
    return row["origin"].partition, row["origin"].offset, row.get("sequence") or 0


def result(row: dict[str, Any]) -> Result:
    key = to_text(row.get("key"))
    if row.get("skip"):
        return Skipped(key)
    if row.get("error") is not None:
        return Rejected(key, row["error"])
    return key, to_text(row["value"])


def to_bytes(content: Content) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def to_text(content: Content | bytearray) -> Content:
    if content is None or isinstance(content, str):
        return content
    try:
        return bytes(content).decode()
    except UnicodeDecodeError:
        return bytes(content)
