"""Read few records with the digest that Spark would compute, in the driver.

It shares no code with the digest of the sink (`log.digest`), so an error in either of them is found.
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import xxhash

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.headers import Header, headers_of
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.reader import read_partitions

SEED = 42
#: Offset, key, digest and time in microseconds.
Row = tuple[int, bytes | None, int, int]


def read_digests(
    connection: Connection, topics: list[str], ranges: Mapping[int, list[OffsetRange]]
) -> Iterator[pa.RecordBatch]:
    """Read the visible records of these ranges, partition after partition. Topics go by their number. Only the key and
    the digest of a record are kept."""
    chosen = [(topics[number], r) for number, topic_ranges in sorted(ranges.items()) for r in topic_ranges if r.size]
    starts = {(topic, r.partition): r.start for topic, r in chosen}
    ends = {(topic, r.partition): r.end for topic, r in chosen}
    rows: dict[tuple[str, int], list[Row]] = {place: [] for place in ends}
    for m in read_partitions(connection, starts, ends):
        row = (m.offset() or 0, m.key(), digest(m.key(), m.value(), headers_of(m)), m.timestamp()[1] * 1000)
        rows[m.topic() or "", m.partition() or 0].append(row)
    for (topic, partition), records in rows.items():
        if records:
            yield digest_batch(topics.index(topic), partition, records)


def digest_batch(topic: int, partition: int, rows: list[Row]) -> pa.RecordBatch:
    offsets, keys, digests, times = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "topic": pa.repeat(pa.scalar(topic, pa.int32()), len(rows)),
            "sink_partition": pa.repeat(pa.scalar(partition, pa.int32()), len(rows)),
            "sink_offset": pa.array(offsets, pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "digest": pa.array(digests, pa.int64()),
            "written_at": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def digest(key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> int:
    """`xxhash64(key, key IS NULL, value, value IS NULL, headers)`: each hash is the seed of the next one, and nulls are
    skipped."""
    hashed = SEED
    for column in (key, value):
        if column is not None:
            hashed = xxhash.xxh64_intdigest(column, hashed)
        hashed = xxhash.xxh64_intdigest((column is None).to_bytes(4, "little"), hashed)
    for name, content in headers:
        hashed = xxhash.xxh64_intdigest(name.encode(), hashed)
        if content is not None:
            hashed = xxhash.xxh64_intdigest(content, hashed)
    return hashed - (1 << 64) if hashed >= 1 << 63 else hashed
