"""Rows of a Parquet file, read page by page."""

import os
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eos_assets.files.errors import FileError, RowError, reraise_system_error
from eos_assets.files.limits import Meter
from eos_assets.files.rows import BATCH_BYTES, BATCH_ROWS, COLUMNS, REQUIRED, Rows

PAGE_BUFFER = 1 << 20
#: A footer is read as a whole. Its length is in the last bytes of the file, before the magic number.
MAX_FOOTER_BYTES = 64 << 20
TAIL_BYTES = 8
MAGIC = (b"PAR1", b"PARE")


def read_parquet(file: IO[bytes], size: int, meter: Meter) -> Iterator[Rows]:
    """Read no more than a page of each column at a time."""
    check_footer(file)
    try:
        metadata = pq.ParquetFile(file).metadata
        source, dictionaries = open_parquet(file, metadata), open_parquet(file, metadata, dictionaries=True)
    except (pa.ArrowException, OSError) as failure:
        reraise_system_error(failure)
        raise FileError(f"not a Parquet file, or truncated: {first_line(failure)}") from None
    check_columns(source.schema_arrow)
    columns = [name for name in COLUMNS if name in source.schema_arrow.names]
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    meter.check_unpacked(sum(max(0, group.total_byte_size) for group in groups), size)
    row, unpacked = 1, 0
    for number, group in enumerate(groups):
        try:
            repeated = repeated_bytes(dictionaries, number, columns, row, meter.limits.max_row_bytes)
            average = group.total_byte_size // max(1, group.num_rows)
            step = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, average, repeated)))
            for batch in source.iter_batches(step, row_groups=[number], columns=columns, use_threads=False):
                meter.remaining()
                rows = read_batch(batch, row, meter)
                unpacked += sum(text.nbytes for text in rows.columns.values())  # the footer is not to be trusted
                meter.check_unpacked(unpacked, size)
                yield rows
                row += batch.num_rows
        except (pa.ArrowException, OSError) as failure:
            reraise_system_error(failure)
            raise FileError(f"the Parquet file is damaged after row {row - 1}: {first_line(failure)}") from None


def check_footer(file: IO[bytes]) -> None:
    """Reject a footer that is too large for memory before any of it is read."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    tail = file.read(TAIL_BYTES)
    file.seek(0)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] in MAGIC and length > MAX_FOOTER_BYTES:
        raise FileError(f"the footer of the Parquet file has {length} bytes, the limit is {MAX_FOOTER_BYTES}")


def open_parquet(file: IO[bytes], metadata: Any, *, dictionaries: bool = False) -> pq.ParquetFile:
    """Open the file, with dictionaries kept as such if wanted.

    This must not read the metadata of a column chunk: in a damaged footer that ends the process.
    """
    paths = [metadata.schema.column(number).path for number in range(len(metadata.schema))] if dictionaries else []
    return pq.ParquetFile(
        file,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=PAGE_BUFFER,
        read_dictionary=[path for path in paths if path in COLUMNS],  # paths, because nested columns repeat names
        page_checksum_verification=True,
    )


def repeated_bytes(source: pq.ParquetFile, group: int, columns: list[str], row: int, limit: int) -> int:
    """The largest size of a row made of dictionary values: a short page can repeat a long value without end. The
    dictionaries come with the first row of a row group."""
    total = 0
    for batch in source.iter_batches(1, row_groups=[group], columns=columns, use_threads=False):
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_dictionary(values.type):
                length = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
                if length > limit:
                    raise RowError(row, f"{name} in this row or one after it is longer than {limit} bytes")
                total += length
        break
    return total


def check_columns(schema: pa.Schema) -> None:
    missing = [name for name in REQUIRED if name not in schema.names]
    if missing:
        raise FileError(f"the Parquet file has no column {', '.join(missing)}")
    repeated = [name for name in COLUMNS if schema.names.count(name) > 1]
    if repeated:
        raise FileError(f"the Parquet file has column {repeated[0]} twice")
    for name in COLUMNS:
        if name in schema.names and not is_readable(name, schema.field(name).type):
            hint = ": a float is not exact, write a decimal" if pa.types.is_floating(schema.field(name).type) else ""
            raise FileError(f"column {name} of the Parquet file is {schema.field(name).type}{hint}")


def is_readable(name: str, kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(kind):
        kind = kind.value_type
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind) or t.is_null(kind):
        return True
    if name == "booked_at":
        return bool(t.is_timestamp(kind) or t.is_date32(kind))
    return bool(t.is_integer(kind) or (name == "amount" and t.is_decimal(kind)))


def read_batch(batch: pa.RecordBatch, first: int, meter: Meter) -> Rows:
    rows = Rows({}, first)
    rows.columns.update({name: read_column(batch, name, rows, meter.limits.max_row_bytes) for name in COLUMNS})
    return rows


def read_column(batch: pa.RecordBatch, name: str, rows: Rows, limit: int) -> pa.StringArray:
    """One column as text, checked for its encoding and for long values."""
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    values = batch[name]
    if pa.types.is_timestamp(values.type) or pa.types.is_date32(values.type):
        return format_timestamps(values, rows)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    text = format_decimals(values) if pa.types.is_decimal(values.type) else values.cast(pa.string())
    try:
        text.validate(full=True)  # Arrow's reader does not check UTF-8
    except pa.ArrowInvalid:
        raise rows.error(first_invalid(text), f"{name} is not UTF-8") from None
    too_long = pc.greater(pc.binary_length(text), limit)
    if pc.any(too_long).as_py():
        raise rows.error(pc.index(too_long, True).as_py(), f"{name} is longer than {limit} bytes")
    return text


def format_decimals(values: Any) -> pa.StringArray:
    """Decimals without an exponent. Their scale is that of the column, so zeros after the second place are removed."""
    text = values.cast(pa.string())
    scientific = pc.fill_null(pc.match_substring(text, "E"), False)
    if pc.any(scientific, min_count=0).as_py():
        digits = [f"{Decimal(number):f}" for number in text.filter(scientific).to_pylist()]
        text = pc.replace_with_mask(text, scientific, pa.array(digits, pa.string()))
    return pc.replace_substring_regex(text, r"(\.[0-9]{2}[0-9]*?)0+$", r"\1")


def first_invalid(text: pa.StringArray) -> int:
    for index, value in enumerate(text.cast(pa.binary()).to_pylist()):
        if value is not None and value.decode(errors="replace").encode() != value:
            return index
    return 0


def format_timestamps(values: Any, rows: Rows) -> pa.StringArray:
    """Timestamps as ISO text in UTC. Without a zone they are taken as UTC."""
    try:
        exact = values.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowException as failure:
        reason = f"booked_at in this row or one after it has no exact microseconds: {first_line(failure)}"
        raise rows.error(0, reason) from None
    text = pc.strftime(exact, format="%Y-%m-%dT%H:%M:%SZ")
    return pc.replace_substring_regex(text, r"\.?0+Z$", "Z") if pc.any(pc.match_substring(text, ".")).as_py() else text


def first_line(failure: Exception) -> str:
    return str(failure).splitlines()[0][:200] if str(failure) else type(failure).__name__
