"""The rows of the audit tables, as Arrow tables made by the driver."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal

import pyarrow as pa
from confluent_kafka import Message

from eos_assets.kafka.headers import UnreadableHeadersError, headers_of, last_header
from eos_assets.log.dead_letter import ERROR, ORIGIN, PIPELINE
from eos_assets.log.ledger import LedgerEntry, WrittenRange
from eos_assets.log.provenance import ProvenanceMap

TIMESTAMP = pa.timestamp("us", tz="UTC")
PART = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("count", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("digest", pa.decimal128(20)),
    ]
)
TRANSACTIONS = pa.schema(
    [
        ("pipeline", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("next", pa.int64()),
        ("ledger_offset", pa.int64()),
        ("ledger_id", pa.string()),
        *((name, pa.int64()) for name in ("records_in", "records_out", "skipped", "repeats", "dead", "dropped")),
        ("isolated", pa.int64()),
        ("bytes_out", pa.int64()),
        ("sinks", pa.list_(PART)),
        ("state", pa.list_(PART)),
        ("run", pa.string()),
        ("run_attempt", pa.int32()),
        ("task_attempt", pa.int32()),
        ("code_version", pa.string()),
        ("began_at", TIMESTAMP),
        ("ended_at", TIMESTAMP),
    ]
)
DELIVERIES = pa.schema(
    [
        ("topic", pa.string()),
        ("sink_partition", pa.int32()),
        ("sink_offset", pa.int64()),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
        ("sequence", pa.int64()),
        ("transaction_start", pa.int64()),
        ("digest", pa.int64()),
        ("written_at", TIMESTAMP),
    ]
)
DEAD_LETTERS = pa.schema(
    [
        ("sink_partition", pa.int32()),
        ("sink_offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("reason", pa.string()),
        ("origin", pa.string()),
        ("written_at", TIMESTAMP),
    ]
)
PARTITIONS = pa.schema(
    [
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("log_start", "position", "last_stable", "lag", "proven")),
    ]
)
PLACE = ["topic", "sink_partition", "sink_offset"]


def transaction_rows(entries: Iterable[tuple[int, LedgerEntry]], ledger_id: str) -> pa.Table:
    """One row per entry of the ledger, with its offset there."""
    rows = [
        {
            **asdict(entry),
            "ledger_offset": offset,
            "ledger_id": ledger_id,
            "sinks": [part_row(part) for part in entry.sinks],
            "state": [part_row(part) for part in entry.state],
            "began_at": entry.began_ms * 1000,
            "ended_at": entry.ended_ms * 1000,
        }
        for offset, entry in entries
    ]
    return pa.Table.from_pylist(rows, TRANSACTIONS)


def part_row(part: WrittenRange) -> dict[str, object]:
    return {**asdict(part), "digest": Decimal(part.digest)}


def delivery_rows(maps: Iterable[ProvenanceMap], records: Iterable[pa.RecordBatch], topics: Sequence[str]) -> pa.Table:
    """One row per output that a map names, with digest and time of its record where that is still there."""
    named = [map_rows(one) for one in maps]
    there = [record_rows(batch, topics) for batch in records]
    if not named:
        return DELIVERIES.empty_table()
    outputs = pa.concat_tables(named)
    if not there:
        return outputs.append_column("digest", pa.nulls(outputs.num_rows, pa.int64())).append_column(
            "written_at", pa.nulls(outputs.num_rows, TIMESTAMP)
        )
    joined = outputs.join(pa.concat_tables(there), PLACE, join_type="left outer")
    return joined.select(DELIVERIES.names).cast(DELIVERIES)


def map_rows(one: ProvenanceMap) -> pa.Table:
    count = len(one.sink_offsets)
    return pa.table(
        {
            "topic": pa.repeat(one.topic, count),
            "sink_partition": pa.repeat(pa.scalar(one.partition, pa.int32()), count),
            "sink_offset": pa.array(one.sink_offsets),
            "source_partition": pa.repeat(pa.scalar(one.source_partition, pa.int32()), count),
            "source_offset": pa.array(one.source_offsets),
            "sequence": pa.array(one.sequences),
            "transaction_start": pa.repeat(pa.scalar(one.start, pa.int64()), count),
        }
    )


def record_rows(batch: pa.RecordBatch, topics: Sequence[str]) -> pa.Table:
    """Where the records of one partition are, their digests and times."""
    topic = pa.repeat(topics[batch["topic"][0].as_py()], batch.num_rows)
    columns = {name: batch[name] for name in ("sink_partition", "sink_offset", "digest", "written_at")}
    return pa.table({"topic": topic, **columns})


def dead_letter_rows(messages: Iterable[Message], pipeline: str) -> pa.Table:
    """The dead letters of one pipeline: others may share the topic."""
    return pa.Table.from_pylist(list(letters(messages, pipeline)), DEAD_LETTERS)


def letters(messages: Iterable[Message], pipeline: str) -> Iterator[dict[str, object]]:
    for message in messages:
        try:
            headers = headers_of(message)
        except UnreadableHeadersError:  # of another writer: ours leaves such headers out
            continue
        if last_header(headers, PIPELINE) == pipeline.encode():
            yield {
                "sink_partition": message.partition(),
                "sink_offset": message.offset(),
                "key": message.key(),
                "value": message.value(),
                "reason": text(last_header(headers, ERROR)),
                "origin": text(last_header(headers, ORIGIN)),
                "written_at": message.timestamp()[1] * 1000,
            }


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
