"""Rows as they stand in a file: batches of text columns, with the place of each row for reasons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from eos_assets.files.broken import BadRow, shown

#: A batch holds so many rows, or fewer that are large.
BATCH = 10_000
BATCH_BYTES = 4 << 20
#: What a row must have, and what it may have; other columns are left out.
REQUIRED = ("transaction_id", "account", "amount", "currency", "booked_at")
OPTIONAL = ("text",)
COLUMNS = (*REQUIRED, *OPTIONAL)


@dataclass(frozen=True)
class Rows:
    """Some rows of a file, in its order. `first` is the number of the first one, counted from 1."""

    columns: dict[str, pa.StringArray]
    first: int
    lines: Sequence[int] | None = None

    def bad(self, index: int, reason: str) -> BadRow:
        return BadRow(self.first + index, reason, None if self.lines is None else self.lines[index])


def rows_of(values: dict[str, list[Any]], first: int, lines: Sequence[int] | None = None) -> Rows:
    """Rows of plain Python values: each must be text, or nothing."""
    columns = {}
    for name in COLUMNS:
        given = values.get(name)
        if given is None:
            given = [None] * len(next(iter(values.values())))
        try:
            columns[name] = pa.array(given, pa.string())
        except (pa.ArrowException, TypeError, UnicodeError):
            index = next(i for i, value in enumerate(given) if not is_text(value))
            raise Rows({}, first, lines).bad(index, f"{name} is {shown(given[index])}, which is no text") from None
    return Rows(columns, first, lines)


def is_text(value: object) -> bool:
    if value is None:
        return True
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeError:
        return False


def lines_of(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    """The lines of a stream. One that is too long comes cut, one byte longer than the limit."""
    while line := stream.readline(limit + 1):
        yield line
        if len(line) > limit:
            return


def too_long(row: int, limit: int, line: int | None = None) -> BadRow:
    return BadRow(row, f"longer than {limit} bytes", line)


def wrong_encoding(row: int, failure: UnicodeDecodeError, line: int | None = None) -> BadRow:
    return BadRow(row, f"wrong encoding: byte 0x{failure.object[failure.start]:02x} is not UTF-8", line)
