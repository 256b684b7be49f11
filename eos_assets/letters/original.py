"""The source records of dead letters, as a transform gets them.

They are read from the dead-letter topic, which has their bytes as long as the letter itself exists: the source may have
lost them to its retention.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.headers import Header, headers_of
from eos_assets.kafka.reader import read_partition
from eos_assets.letters.letter import Letter, Origin, letter_of, original_headers, original_timestamp
from eos_assets.log.dead_letter import UNREADABLE_HEADERS
from eos_assets.transform.result_schema import HEADERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = f"key binary, value binary, headers {HEADERS}, milliseconds long, `partition` int, `offset` long, ordinal long"


@dataclass(frozen=True)
class Original:
    """One source record, from its letter."""

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp: int

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


def read_originals(context: PipelineContext, letters: Sequence[Letter]) -> Iterator[Original]:
    """The records of these letters, which are in the order of their partitions and origins. A letter that is not enough
    to give its record again is left out."""
    partitions = sorted({letter.origin[0] for letter in letters})
    for partition in partitions:
        wanted = {letter.offset for letter in letters if letter.origin[0] == partition}
        topic, first, end = context.names.dead_letters, min(wanted), max(wanted) + 1
        for message in read_partition(context.kafka, topic, partition, first, end):
            if message.offset() not in wanted:
                continue
            letter, headers = letter_of(context.pipeline, message), headers_of(message)
            original, timestamp = original_headers(headers), original_timestamp(headers)
            if letter is not None and timestamp is not None and UNREADABLE_HEADERS not in original:
                yield Original(letter.origin, message.key(), message.value(), original, timestamp)


def read_original(pipeline: Pipeline, connection: Connection, letter: Letter) -> Original:
    """The record of one letter, with the time of the letter where it does not hold that of its record."""
    place = (pipeline.names().dead_letters, letter.origin[0], letter.offset, letter.offset + 1)
    (message,) = read_partition(connection, *place)
    headers = headers_of(message)
    timestamp = original_timestamp(headers)
    known = letter.written_ms if timestamp is None else timestamp
    return Original(letter.origin, message.key(), message.value(), original_headers(headers), known)


def records_frame(context: PipelineContext, originals: Iterable[Original]) -> "DataFrame":
    """What a transform gets: key, value, headers, timestamp and origin."""
    rows = [(o.key, o.value, o.headers or None, o.timestamp, *o.origin, ordinal) for ordinal, o in enumerate(originals)]
    return context.spark.createDataFrame(rows, SCHEMA).selectExpr(
        "key",
        "value",
        "headers",
        "timestamp_millis(milliseconds) AS `timestamp`",
        "struct(`partition`, `offset`, `ordinal`) AS `origin`",
    )
