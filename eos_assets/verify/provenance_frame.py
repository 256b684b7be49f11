"""Decode a provenance topic in Spark: one row per output or skip."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eos_assets.errors import Code
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import provenance
from eos_assets.transform.spark_errors import classify
from eos_assets.worker_path import drop_archives

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of maps. Topics go by their number.
MAP_ROWS = pa.schema(
    [
        ("source_partition", pa.int32()),
        ("start", pa.int64()),
        ("topic", pa.int32()),
        ("sink_partition", pa.int32()),
        ("sink_offset", pa.int64()),
        ("source_offset", pa.int64()),
        ("sequence", pa.int64()),
        ("map_offset", pa.int64()),
    ]
)
#: The number of the topic in rows of skips, and of topics that no longer exist.
NO_TOPIC = -1
Batches = Iterable[pa.RecordBatch]


def decode_maps(messages: "DataFrame", provenance_topic: str, topics: list[str]) -> "DataFrame":
    """The rows of `MAP_ROWS` in messages of a provenance topic."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = messages.select("partition", "offset", "value")
    return columns.mapInArrow(map_decoder(provenance_topic, topics), from_arrow_schema(MAP_ROWS))


def map_decoder(provenance_topic: str, topics: list[str]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    numbers = {topic: number for number, topic in enumerate(topics)}

    def decode(batches: Batches) -> Iterator[pa.RecordBatch]:
        drop_archives()
        for batch in batches:
            for message in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                one = provenance.read_at(provenance_topic, *message)
                count = len(one.source_offsets)
                yield pa.record_batch(
                    [
                        constant(one.source_partition, count, pa.int32()),
                        constant(one.start, count, pa.int64()),
                        constant(numbers.get(one.topic, NO_TOPIC), count, pa.int32()),
                        constant(one.partition, count, pa.int32()),
                        pa.array(one.sink_offsets),
                        pa.array(one.source_offsets),
                        pa.array(one.sequences),
                        constant(message[1], count, pa.int64()),
                    ],
                    schema=MAP_ROWS,
                )

    return decode


def constant(value: Any, count: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def raise_foreign_map(failure: Exception, connection: Connection, provenance_topic: str) -> None:
    """Read the provenance topic after a function raised in a task over it. A message that is not a map raises its own
    error here, so nothing depends on how Spark reports that of the task."""
    if classify(failure).code is Code.TRANSFORM_RAISED:
        starts = {(provenance_topic, partition): 0 for partition in connection.partitions(provenance_topic)}
        for message in read_partitions(connection, starts):
            provenance.read(message)
