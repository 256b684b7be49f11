"""A Parquet file on disk in, rows out, page by page."""

from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eos_assets.files.broken import BadRow, BrokenFile
from eos_assets.files.limits import Meter
from eos_assets.files.rows import BATCH, BATCH_BYTES, COLUMNS, REQUIRED, Rows

PAGE_BUFFER = 1 << 20


def parquet_rows(file: IO[bytes], size: int, meter: Meter) -> Iterator[Rows]:
    """Reads no more than a page of each column at a time."""
    try:
        about = pq.ParquetFile(file).metadata
        # Text stays a dictionary until its values were measured: a short page may repeat a long value without end.
        texts = [name for name in about.schema.names if name in COLUMNS]
        source = pq.ParquetFile(file, metadata=about, pre_buffer=False, buffer_size=PAGE_BUFFER, read_dictionary=texts)
    except (pa.ArrowException, OSError) as failure:
        raise BrokenFile(f"no Parquet file, or truncated: {first_line(failure)}") from None
    schema = source.schema_arrow
    check_columns(schema)
    unpacked = sum(source.metadata.row_group(n).total_byte_size for n in range(source.metadata.num_row_groups))
    meter.judge(unpacked, size)
    row = 1
    average = unpacked // max(1, source.metadata.num_rows) + 1
    size_of_batch = max(1, min(BATCH, BATCH_BYTES // average))
    batches = source.iter_batches(size_of_batch, columns=[c for c in COLUMNS if c in schema.names], use_threads=False)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as failure:
            raise BrokenFile(f"the Parquet file is damaged behind row {row - 1}: {first_line(failure)}") from None
        if batch is None:
            return
        meter.remaining()
        step = max(1, BATCH_BYTES // longest(batch, row, meter.limits.max_row_bytes))
        for low in range(0, batch.num_rows, step):
            part, rows = batch.slice(low, step), Rows({}, row + low)
            rows.columns.update({name: column(part, name, rows) for name in COLUMNS})
            yield rows
        row += batch.num_rows


def longest(batch: pa.RecordBatch, row: int, limit: int) -> int:
    """The size that a row of this batch has at most, before any value is repeated in memory."""
    total = 1
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(values.type):
            size = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
            if size > limit:
                raise BadRow(row, f"{name} here or in the rows below is longer than {limit} bytes")
            total += size
    return total


def check_columns(schema: pa.Schema) -> None:
    missing = [name for name in REQUIRED if name not in schema.names]
    if missing:
        raise BrokenFile(f"the Parquet file has no column {', '.join(missing)}")
    for name in COLUMNS:
        if name in schema.names and not readable(name, schema.field(name).type):
            hint = ": write a decimal, a float is not exact" if pa.types.is_floating(schema.field(name).type) else ""
            raise BrokenFile(f"column {name} of the Parquet file is {schema.field(name).type}{hint}")


def readable(name: str, kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(kind):
        kind = kind.value_type
    if t.is_string(kind) or t.is_large_string(kind) or t.is_null(kind):
        return True
    if name == "booked_at":
        return bool(t.is_timestamp(kind) or t.is_date32(kind))
    return bool(t.is_integer(kind) or (name == "amount" and t.is_decimal(kind)))


def column(batch: pa.RecordBatch, name: str, rows: Rows) -> pa.StringArray:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    values = batch[name]
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(values.type) or pa.types.is_date32(values.type):
        return instants(values, rows)
    return values.cast(pa.string())


def instants(values: Any, rows: Rows) -> pa.StringArray:
    """Timestamps as ISO text in UTC. Without a zone they are taken as UTC."""
    try:
        exact = values.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowException as failure:
        raise rows.bad(0, f"booked_at here or below has no exact microseconds: {first_line(failure)}") from None
    text = pc.strftime(exact, format="%Y-%m-%dT%H:%M:%SZ")
    return pc.replace_substring_regex(text, r"\.?0+Z$", "Z") if pc.any(pc.match_substring(text, ".")).as_py() else text


def first_line(failure: Exception) -> str:
    return str(failure).splitlines()[0][:200] if str(failure) else type(failure).__name__
