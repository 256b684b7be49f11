"""A Parquet file on disk in, rows out, page by page."""

import os
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eos_assets.files.broken import BadRow, BrokenFile, check_disk
from eos_assets.files.limits import Meter
from eos_assets.files.rows import BATCH, BATCH_BYTES, COLUMNS, REQUIRED, Rows

PAGE_BUFFER = 1 << 20
#: A footer is read whole, and some bytes before the end of the file say how long it is.
MAX_FOOTER_BYTES = 64 << 20
TAIL_BYTES = 8
MAGIC = (b"PAR1", b"PARE")


def parquet_rows(file: IO[bytes], size: int, meter: Meter) -> Iterator[Rows]:
    """Reads no more than a page of each column at a time."""
    check_footer(file)
    try:
        about = pq.ParquetFile(file).metadata
        source, dictionaries = opened(file, about), opened(file, about, dictionaries=True)
    except (pa.ArrowException, OSError) as failure:
        check_disk(failure)
        raise BrokenFile(f"no Parquet file, or truncated: {first_line(failure)}") from None
    check_columns(source.schema_arrow)
    columns = [name for name in COLUMNS if name in source.schema_arrow.names]
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    meter.judge(sum(max(0, group.total_byte_size) for group in groups), size)
    row, unpacked = 1, 0
    for number, group in enumerate(groups):
        try:
            longest = longest_of(dictionaries, number, columns, row, meter.limits.max_row_bytes)
            average = group.total_byte_size // max(1, group.num_rows)
            step = max(1, min(BATCH, BATCH_BYTES // max(1, average, longest)))
            for batch in source.iter_batches(step, row_groups=[number], columns=columns, use_threads=False):
                meter.remaining()
                rows = Rows({}, row)
                rows.columns.update({name: column(batch, name, rows, meter) for name in COLUMNS})
                unpacked += sum(text.nbytes for text in rows.columns.values())  # a footer says what it likes
                meter.judge(unpacked, size)
                yield rows
                row += batch.num_rows
        except (pa.ArrowException, OSError) as failure:
            check_disk(failure)
            raise BrokenFile(f"the Parquet file is damaged behind row {row - 1}: {first_line(failure)}") from None


def check_footer(file: IO[bytes]) -> None:
    """Refuses a footer that is too large for memory before any of it is read."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    tail = file.read(TAIL_BYTES)
    file.seek(0)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] in MAGIC and length > MAX_FOOTER_BYTES:
        raise BrokenFile(f"the footer of the Parquet file has {length} bytes, allowed are {MAX_FOOTER_BYTES}")


def opened(file: IO[bytes], about: Any, *, dictionaries: bool = False) -> pq.ParquetFile:
    """Nothing here may ask the footer about a single column of a row group: of a damaged one that ends the process."""
    paths = [about.schema.column(number).path for number in range(len(about.schema))] if dictionaries else []
    return pq.ParquetFile(
        file,
        metadata=about,
        pre_buffer=False,
        buffer_size=PAGE_BUFFER,
        read_dictionary=[path for path in paths if path in COLUMNS],  # inside a nested column a name says nothing
        page_checksum_verification=True,
    )


def longest_of(source: pq.ParquetFile, group: int, columns: list[str], row: int, limit: int) -> int:
    """How long a row may become by values that stand in the file once and in many rows: a short page can repeat a long
    value without end. One row is enough to see all that is repeated."""
    total = 0
    for batch in source.iter_batches(1, row_groups=[group], columns=columns, use_threads=False):
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_dictionary(values.type):
                length = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
                if length > limit:
                    raise BadRow(row, f"{name} here or in the rows below is longer than {limit} bytes")
                total += length
        break
    return total


def check_columns(schema: pa.Schema) -> None:
    missing = [name for name in REQUIRED if name not in schema.names]
    if missing:
        raise BrokenFile(f"the Parquet file has no column {', '.join(missing)}")
    twice = [name for name in COLUMNS if schema.names.count(name) > 1]
    if twice:
        raise BrokenFile(f"the Parquet file has column {twice[0]} twice")
    for name in COLUMNS:
        if name in schema.names and not readable(name, schema.field(name).type):
            hint = ": write a decimal, a float is not exact" if pa.types.is_floating(schema.field(name).type) else ""
            raise BrokenFile(f"column {name} of the Parquet file is {schema.field(name).type}{hint}")


def readable(name: str, kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(kind):
        kind = kind.value_type
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind) or t.is_null(kind):
        return True
    if name == "booked_at":
        return bool(t.is_timestamp(kind) or t.is_date32(kind))
    return bool(t.is_integer(kind) or (name == "amount" and t.is_decimal(kind)))


def column(batch: pa.RecordBatch, name: str, rows: Rows, meter: Meter) -> pa.StringArray:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    values = batch[name]
    if pa.types.is_timestamp(values.type) or pa.types.is_date32(values.type):
        return instants(values, rows)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    text = plain(values) if pa.types.is_decimal(values.type) else values.cast(pa.string())
    try:
        text.validate(full=True)  # Arrow's reader does not look
    except pa.ArrowInvalid:
        raise rows.bad(first_odd(text), f"{name} is not UTF-8") from None
    too_long = pc.greater(pc.binary_length(text), meter.limits.max_row_bytes)
    if pc.any(too_long).as_py():
        raise rows.bad(pc.index(too_long, True).as_py(), f"{name} is longer than {meter.limits.max_row_bytes} bytes")
    return text


def plain(values: Any) -> pa.StringArray:
    """Decimals without an exponent. How many places they have is their column's affair: zeros behind the second place
    say nothing, and are left out."""
    text = values.cast(pa.string())
    odd = pc.fill_null(pc.match_substring(text, "E"), False)
    if pc.any(odd, min_count=0).as_py():
        digits = [f"{Decimal(number):f}" for number in text.filter(odd).to_pylist()]
        text = pc.replace_with_mask(text, odd, pa.array(digits, pa.string()))
    return pc.replace_substring_regex(text, r"(\.[0-9]{2}[0-9]*?)0+$", r"\1")


def first_odd(text: pa.StringArray) -> int:
    for index, value in enumerate(text.cast(pa.binary()).to_pylist()):
        if value is not None and value.decode(errors="replace").encode() != value:
            return index
    return 0


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
