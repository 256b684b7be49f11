"""Rows of a CSV file: UTF-8, commas, a header, and quotes as in RFC 4180."""

import codecs
import csv
from collections.abc import Iterator
from typing import BinaryIO

from eos_assets.files.errors import FileError, RowError, quote
from eos_assets.files.limits import Limits
from eos_assets.files.rows import (
    BATCH_BYTES,
    BATCH_ROWS,
    COLUMNS,
    REQUIRED,
    Rows,
    read_lines,
    row_too_long,
    rows_from_values,
    wrong_encoding,
)

# The limit holds for the whole process, and its default of 131,072 characters is less than ours.
csv.field_size_limit(max(csv.field_size_limit(), Limits().max_row_bytes))


class CsvReader:
    """Reads one file once. The rows before an invalid one are returned before its error is raised."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self.stream = stream
        self.limit = limit
        self.records = csv.reader(self.read_text(), strict=True)
        #: The numbers of the last line and of the last row that were read.
        self.line = 0
        self.row = 0
        #: The rows of the next batch, the line on which each begins, and the bytes of all their lines.
        self.batch: list[list[str]] = []
        self.batch_lines: list[int] = []
        self.batch_bytes = 0
        #: The bytes of the current row: a quoted field may contain line breaks.
        self.row_bytes = 0

    def read_text(self) -> Iterator[str]:
        for line in read_lines(self.stream, self.limit):
            self.line += 1
            self.batch_bytes += len(line)
            self.row_bytes += len(line)
            if self.row_bytes > self.limit:
                raise row_too_long(self.row + 1, self.limit, self.line)
            yield (line.removeprefix(codecs.BOM_UTF8) if self.line == 1 else line).decode()

    def read(self) -> Iterator[Rows]:
        header = self.read_header()
        try:
            while self.read_row(len(header)):
                if len(self.batch) == BATCH_ROWS or self.batch_bytes > BATCH_BYTES:
                    yield from self.take_batch(header)
        except RowError:
            yield from self.take_batch(header)
            raise
        yield from self.take_batch(header)

    def read_header(self) -> list[str]:
        try:
            fields = next(self.records, None)
        except RowError:
            raise FileError(f"the header is longer than {self.limit} bytes") from None
        except (csv.Error, UnicodeDecodeError) as failure:
            raise FileError(f"the header is not UTF-8 CSV: {failure}") from None
        if not fields:
            raise FileError("the file is empty: it has no header" if fields is None else "the first line is blank")
        header = [name.strip() for name in fields]
        missing = [name for name in REQUIRED if name not in header]
        if missing:
            raise FileError(f"the header has no {', '.join(missing)}: it is {quote(','.join(header), 200)}")
        repeated = [name for name in COLUMNS if header.count(name) > 1]
        if repeated:
            raise FileError(f"the header has {repeated[0]} twice")
        return header

    def read_row(self, columns: int) -> bool:
        """Add the next row to the batch, unless its line is empty; return False at the end."""
        start, self.row_bytes = self.line + 1, 0
        try:
            fields = next(self.records, None)
        except csv.Error as failure:
            raise RowError(self.row + 1, f"invalid CSV: {failure}", start) from None
        except UnicodeDecodeError as failure:
            raise wrong_encoding(self.row + 1, failure, self.line) from None
        if fields and len(fields) != columns:
            raise RowError(self.row + 1, f"{len(fields)} fields, the header has {columns}", start)
        if fields:
            self.row += 1
            self.batch.append(fields)
            self.batch_lines.append(start)
        return fields is not None

    def take_batch(self, header: list[str]) -> Iterator[Rows]:
        """Return the collected rows, if there are any, and begin the next batch."""
        if self.batch:
            columns = dict(zip(header, zip(*self.batch, strict=True), strict=True))
            values = {name: list(columns[name]) for name in COLUMNS if name in columns}
            first, lines = self.row - len(self.batch) + 1, self.batch_lines
            self.batch, self.batch_lines, self.batch_bytes = [], [], 0
            yield rows_from_values(values, first, lines)
