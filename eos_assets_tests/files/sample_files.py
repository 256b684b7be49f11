"""Write the files that tests read, below the declared folder."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eos_assets.files.access import Access

HEADER = "transaction_id,account,amount,currency,booked_at,text"
GOOD = "T1,A1,-12.34,EUR,2026-05-04T09:30:00Z,rent"


def put(access: Access, name: str, content: str | bytes) -> str:
    assert access.root is not None
    path = access.root / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path.as_uri()


def row(**changes: Any) -> dict[str, Any]:
    good = {"transaction_id": "T1", "account": "A1", "amount": "-12.34", "currency": "EUR"}
    return {**good, "booked_at": "2026-05-04T09:30:00Z", **changes}


def parquet(path: Path, columns: dict[str, Any]) -> str:
    pq.write_table(pa.table(columns), path)
    return path.as_uri()
