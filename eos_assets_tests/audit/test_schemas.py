"""The columns of the audit tables follow the ledger."""

from dataclasses import fields

import pyarrow as pa

from eos_assets.audit.schemas import MOMENTS, TIMESTAMP, TRANSACTIONS
from eos_assets.log.ledger import LedgerEntry

LEFT_OUT = {"topic", "mode", "files"}
RANGES = pa.list_(
    pa.struct(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            *((name, pa.int64()) for name in ("count", "first", "last")),
            ("digest", pa.decimal128(20)),
        ]
    )
)


def test_every_field_of_the_ledger_is_a_column_or_left_out_on_purpose() -> None:
    columns = {MOMENTS.get(field.name, field.name) for field in fields(LedgerEntry)} - LEFT_OUT
    assert columns | {"ledger_offset", "ledger_id"} == set(TRANSACTIONS.names)


def test_the_columns_of_transactions_are_those_of_existing_tables() -> None:
    """Another order or another type would make every update rebuild its tables."""
    assert (
        pa.schema(
            [
                ("pipeline", pa.string()),
                ("partition", pa.int32()),
                ("start", pa.int64()),
                ("next", pa.int64()),
                ("ledger_offset", pa.int64()),
                ("ledger_id", pa.string()),
                *(
                    (name, pa.int64())
                    for name in ("records_in", "records_out", "skipped", "repeats", "dead", "dropped")
                ),
                *((name, pa.int64()) for name in ("isolated", "bytes_out")),
                ("sinks", RANGES),
                ("state", RANGES),
                ("run", pa.string()),
                ("run_attempt", pa.int32()),
                ("task_attempt", pa.int32()),
                ("code_version", pa.string()),
                ("began_at", TIMESTAMP),
                ("ended_at", TIMESTAMP),
            ]
        )
        == TRANSACTIONS
    )
