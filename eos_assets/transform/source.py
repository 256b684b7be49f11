"""Reads exact ranges of the source, and gives each record its origin."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eos_assets.kafka.connection import SILENCE_MS, Connection
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.reader import READER_GROUP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The client's default of 500 records a poll halves the speed of the read.
READER_OPTIONS = {
    "failOnDataLoss": "true",
    "includeHeaders": "true",
    "groupIdPrefix": READER_GROUP,
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    # At the end of a topic the client would wait half a second for records beyond the range.
    "kafka.fetch.max.wait.ms": "10",
    # As for the other readers: a broker that is paused keeps its connections.
    "kafka.request.timeout.ms": str(SILENCE_MS),
    "kafka.default.api.timeout.ms": str(2 * SILENCE_MS),
}

#: The columns that Spark's reader returns, also if there is nothing to read.
SCHEMA = (
    "`key` binary, `value` binary, `topic` string, `partition` int, `offset` long, `timestamp` timestamp, "
    "`timestampType` int, `headers` array<struct<key:string,value:binary>>"
)

#: The lower bits of the id count the rows of one Spark partition.
ORDINAL = f"monotonically_increasing_id() & {(1 << 33) - 1}L"


def read_ranges(
    spark: "SparkSession", connection: Connection, topic: str, ranges: Iterable[OffsetRange], **options: str
) -> "DataFrame":
    """Read the visible records of exactly these ranges. Each is one Spark partition, unless an option cuts it."""
    chosen = [r for r in ranges if r.size]
    if not chosen:
        return spark.createDataFrame([], SCHEMA)
    starts = {str(r.partition): r.start for r in chosen}
    ends = {str(r.partition): r.end for r in chosen}
    return (
        spark.read.format("kafka")
        .option("assign", json.dumps({topic: [r.partition for r in chosen]}))
        .option("startingOffsets", json.dumps({topic: starts}))
        .option("endingOffsets", json.dumps({topic: ends}))
        .options(**{**spark_options(connection), **READER_OPTIONS, **options})
        .load()
    )


def read_records(
    spark: "SparkSession", connection: Connection, topic: str, ranges: Iterable[OffsetRange], **options: str
) -> "DataFrame":
    """Read what a transform gets: key, value, headers, timestamp and origin."""
    origin = f"struct(`partition`, `offset`, {ORDINAL} AS `ordinal`) AS `origin`"
    visible = read_ranges(spark, connection, topic, ranges, **options)
    return visible.selectExpr("`key`", "`value`", "`headers`", "`timestamp`", origin)


def spark_options(connection: Connection) -> dict[str, str]:
    """The connection as options of the Java client."""
    return {"kafka.bootstrap.servers": connection.bootstrap_servers, **connection.security.java()}
