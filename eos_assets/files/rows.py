"""Batches of the rows of a file: columns of text, and the position of each row for error messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from eos_assets.files.errors import RowError, quote

#: The rows of a batch, or fewer if they are large.
BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
#: The columns that a row must have, and those that it may have. Other columns are ignored.
REQUIRED = ("transaction_id", "account", "amount", "currency", "booked_at")
OPTIONAL = ("text",)
COLUMNS = (*REQUIRED, *OPTIONAL)


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a file. `first` is the number of the first one, counted from 1."""

    columns: dict[str, pa.StringArray]
    first: int
    lines: Sequence[int] | None = None

    def error(self, index: int, reason: str) -> RowError:
        return RowError(self.first + index, reason, None if self.lines is None else self.lines[index])


def rows_from_values(values: dict[str, list[Any]], first: int, lines: Sequence[int] | None = None) -> Rows:
    """Build rows from Python values, each of which must be a string or None."""
    count = len(next(iter(values.values())))
    columns = {}
    for name in COLUMNS:
        column = values.get(name, [None] * count)
        try:
            columns[name] = pa.array(column, pa.string())
        except (pa.ArrowException, TypeError, UnicodeError):
            index = next(i for i, value in enumerate(column) if not is_text(value))
            reason = f"{name} is {quote(column[index])}, which is not a string"
            raise Rows({}, first, lines).error(index, reason) from None
    return Rows(columns, first, lines)


def is_text(value: object) -> bool:
    if value is None:
        return True
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeError:
        return False


def read_lines(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    """Read line by line. A line beyond the limit is cut one byte after it, and is the last one."""
    while line := stream.readline(limit + 1):
        yield line
        if len(line) > limit:
            return


def row_too_long(row: int, limit: int, line: int | None = None) -> RowError:
    return RowError(row, f"longer than {limit} bytes", line)


def wrong_encoding(row: int, failure: UnicodeDecodeError, line: int | None = None) -> RowError:
    return RowError(row, f"wrong encoding: byte 0x{failure.object[failure.start]:02x} is not UTF-8", line)
