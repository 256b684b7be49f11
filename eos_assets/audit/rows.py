"""Make the rows of the audit tables in the driver, as Arrow tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal

import pyarrow as pa
from confluent_kafka import Message

from eos_assets.audit.schemas import DEAD_LETTERS, DELIVERIES, MOMENTS, TIMESTAMP, TRANSACTIONS
from eos_assets.kafka.headers import UnreadableHeadersError, headers_of, last_header
from eos_assets.log.dead_letter import ERROR, ORIGIN, PIPELINE
from eos_assets.log.ledger import LedgerEntry, WrittenRange
from eos_assets.log.provenance import ProvenanceMap

#: What identifies an output.
PLACE = ["topic", "sink_partition", "sink_offset"]


def transaction_rows(entries: Iterable[tuple[int, LedgerEntry]], ledger_id: str) -> pa.Table:
    """One row per entry of the ledger, with its offset there."""
    rows = [
        {
            **asdict(entry),
            "ledger_offset": offset,
            "ledger_id": ledger_id,
            "sinks": [range_row(written) for written in entry.sinks],
            "state": [range_row(written) for written in entry.state],
            **{column: getattr(entry, field) * 1000 for field, column in MOMENTS.items()},
        }
        for offset, entry in entries
    ]
    return pa.Table.from_pylist(rows, TRANSACTIONS)


def range_row(written: WrittenRange) -> dict[str, object]:
    return {**asdict(written), "digest": Decimal(written.digest)}


def delivery_rows(maps: Iterable[ProvenanceMap], records: Iterable[pa.RecordBatch], topics: Sequence[str]) -> pa.Table:
    """One row per output that a map names, with digest and time of its record if that is retained."""
    named = [map_rows(provenance_map) for provenance_map in maps]
    retained = [record_rows(batch, topics) for batch in records]
    if not named:
        return DELIVERIES.empty_table()
    outputs = pa.concat_tables(named)
    if not retained:
        return outputs.append_column("digest", pa.nulls(outputs.num_rows, pa.int64())).append_column(
            "written_at", pa.nulls(outputs.num_rows, TIMESTAMP)
        )
    joined = outputs.join(pa.concat_tables(retained), PLACE, join_type="left outer")
    return joined.select(DELIVERIES.names).cast(DELIVERIES)


def map_rows(provenance_map: ProvenanceMap) -> pa.Table:
    """The outputs that one message of the maps names, and their origins."""
    count = len(provenance_map.sink_offsets)
    return pa.table(
        {
            "topic": pa.repeat(provenance_map.topic, count),
            "sink_partition": pa.repeat(pa.scalar(provenance_map.partition, pa.int32()), count),
            "sink_offset": pa.array(provenance_map.sink_offsets),
            "source_partition": pa.repeat(pa.scalar(provenance_map.source_partition, pa.int32()), count),
            "source_offset": pa.array(provenance_map.source_offsets),
            "sequence": pa.array(provenance_map.sequences),
            "transaction_start": pa.repeat(pa.scalar(provenance_map.start, pa.int64()), count),
        }
    )


def record_rows(batch: pa.RecordBatch, topics: Sequence[str]) -> pa.Table:
    """The records of one partition: their offsets, digests and times."""
    topic = pa.repeat(topics[batch["topic"][0].as_py()], batch.num_rows)
    columns = {name: batch[name] for name in ("sink_partition", "sink_offset", "digest", "written_at")}
    return pa.table({"topic": topic, **columns})


def dead_letter_rows(messages: Iterable[Message], pipeline: str) -> pa.Table:
    """The dead letters of one pipeline: others may share the topic."""
    return pa.Table.from_pylist(list(dead_letters(messages, pipeline)), DEAD_LETTERS)


def dead_letters(messages: Iterable[Message], pipeline: str) -> Iterator[dict[str, object]]:
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
