"""The columns of the audit tables. Those of a transaction have the types of the ledger's fields."""

from typing import get_args, get_origin, get_type_hints

import pyarrow as pa

from eos_assets.log.ledger import LedgerEntry

TIMESTAMP = pa.timestamp("us", tz="UTC")
#: Fields of the ledger that need 32 bits, and the digest, which needs 64 bits without a sign.
NARROW = dict.fromkeys(("partition", "run_attempt", "task_attempt"), pa.int32())
DIGEST = {"digest": pa.decimal128(20)}
#: Fields of the ledger in milliseconds → their columns.
MOMENTS = {"began_ms": "began_at", "ended_ms": "ended_at"}


def field_types(record: type) -> dict[str, pa.DataType]:
    """The Arrow type of each field of a record of the ledger."""
    return {
        name: arrow_type(name, hint) for name, hint in get_type_hints(record).items() if get_origin(hint) is not dict
    }


def arrow_type(name: str, hint: object) -> pa.DataType:
    if name in NARROW or name in DIGEST:
        return {**NARROW, **DIGEST}[name]
    if get_origin(hint) is tuple:
        (element, _) = get_args(hint)
        return pa.list_(pa.struct(list(field_types(element).items())))
    return pa.string() if hint is str else pa.int64()


#: In the order of the table, which must not change: a table with other columns is rebuilt. Fields that are the same in
#: every row (`topic`, `mode`) are left out, and so is `files`, a map of any size.
TRANSACTION_COLUMNS = (
    *("pipeline", "partition", "start", "next", "ledger_offset", "ledger_id"),
    *("records_in", "records_out", "skipped", "repeats", "dead", "dropped", "isolated", "bytes_out"),
    *("sinks", "state", "run", "run_attempt", "task_attempt", "code_version", "began_at", "ended_at"),
)
TRANSACTION_TYPES = {
    **field_types(LedgerEntry),
    **dict.fromkeys(MOMENTS.values(), TIMESTAMP),
    "ledger_offset": pa.int64(),
    "ledger_id": pa.string(),
}
TRANSACTIONS = pa.schema([(name, TRANSACTION_TYPES[name]) for name in TRANSACTION_COLUMNS])
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
