"""A file in, what the project reads from it out: the transactions, or the reason why there are none."""

import json
from typing import Any

from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.broken import BrokenFile
from eos_assets.files.spool import spool


def read(value: str | bytes, access: Access) -> list[dict[str, Any]]:
    text = value.encode() if isinstance(value, str) else value
    file = spool(reference.parse(text), access)
    rows = [json.loads(row) for batch in file.batches() for row in batch["value"].to_pylist()]
    assert len(rows) == file.rows
    return rows


def reason(value: str | bytes, access: Access) -> str:
    """Why a file is not delivered."""
    try:
        rows = read(value, access)
    except BrokenFile as broken:
        return broken.reason
    raise AssertionError(f"it was delivered: {len(rows)} rows")
