"""Read a file as the pipeline does: its transactions, or the reason why it is not delivered."""

import json
from dataclasses import replace
from typing import Any

from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.errors import FileError
from eos_assets.files.spool import spool


def read(value: str | bytes, access: Access) -> list[dict[str, Any]]:
    text = value.encode() if isinstance(value, str) else value
    file = spool(reference.parse(text), access)
    rows = [json.loads(row) for batch in file.batches() for row in batch["value"].to_pylist()]
    assert len(rows) == file.rows
    return rows


def reason(value: str | bytes, access: Access) -> str:
    """The reason why a file is not delivered."""
    try:
        rows = read(value, access)
    except FileError as failure:
        return failure.reason
    raise AssertionError(f"the file was delivered: {len(rows)} rows")


def limited(access: Access, **limits: float) -> Access:
    return replace(access, limits=replace(access.limits, **limits))  # type: ignore[arg-type]
