"""The rows that the function of an Arrow pipeline returns, with the columns that a sink needs and no others."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: These are written as they are; numbers, dates and booleans are written as text.
WRITTEN_AS_THEY_ARE = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_null,
)


def arrow_output(records: pa.RecordBatch | pa.Table, columns: dict[str, Any]) -> pa.Table:
    """These columns and the origin of `records`. A column is given by its name, as an array or as a list."""
    chosen = {name: as_array(records, name, column) for name, column in columns.items() if column is not None}
    for name in ("key", "value"):
        if not any(accepts(chosen[name].type) for accepts in WRITTEN_AS_THEY_ARE):
            chosen[name] = pc.cast(chosen[name], pa.string())
    return pa.table({**chosen, "origin": records["origin"]})


def as_array(records: pa.RecordBatch | pa.Table, name: str, column: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, str):
        return records[column]
    try:
        array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    except (pa.ArrowException, TypeError) as failure:
        raise TypeError(f"eos.output: {name}={column!r} is not a column: use its name, or an array") from failure
    if len(array) != records.num_rows:
        raise ValueError(f"eos.output: {name} has {len(array)} rows instead of {records.num_rows}")
    return array
