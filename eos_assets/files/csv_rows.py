"""A CSV stream in, rows out: UTF-8, comma, a header, quotes as in RFC 4180."""

import csv
from collections.abc import Iterator
from typing import BinaryIO

from eos_assets.files.broken import BadRow, BrokenFile, shown
from eos_assets.files.limits import Limits
from eos_assets.files.rows import (
    BATCH,
    BATCH_BYTES,
    COLUMNS,
    REQUIRED,
    Rows,
    lines_of,
    rows_of,
    too_long,
    wrong_encoding,
)

BOM = b"\xef\xbb\xbf"
# It holds for the whole process; 131,072 characters are its default.
csv.field_size_limit(max(csv.field_size_limit(), Limits().max_row_bytes))


class CsvReader:
    """One file, read once. Whatever is wrong is told after the rows before it were given out."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self.stream = stream
        self.limit = limit
        self.line = 0
        self.row = 0
        self.size = 0
        #: Bytes since the row began: quotes let it go over many lines.
        self.row_size = 0

    def text(self) -> Iterator[str]:
        for line in lines_of(self.stream, self.limit):
            self.line += 1
            self.size += len(line)
            self.row_size += len(line)
            if self.row_size > self.limit:
                raise too_long(self.row + 1, self.limit, self.line)
            yield (line.removeprefix(BOM) if self.line == 1 else line).decode()

    def rows(self) -> Iterator[Rows]:
        parsed = csv.reader(self.text(), strict=True)
        header = self.header(parsed)
        chunk: list[list[str]] = []
        lines: list[int] = []
        wrong: BrokenFile | None = None
        while wrong is None:
            start, self.row_size = self.line + 1, 0
            try:
                fields = next(parsed, None)
            except csv.Error as failure:
                wrong = BadRow(self.row + 1, f"no CSV: {failure}", start)
                break
            except UnicodeDecodeError as failure:
                wrong = wrong_encoding(self.row + 1, failure, self.line)
                break
            except BadRow as failure:
                wrong = failure
                break
            if fields is None:
                break
            if not fields:  # an empty line
                continue
            if len(fields) != len(header):
                wrong = BadRow(self.row + 1, f"{len(fields)} fields, the header has {len(header)}", start)
                break
            self.row += 1
            chunk.append(fields)
            lines.append(start)
            if len(chunk) == BATCH or self.size > BATCH_BYTES:
                yield self.columns(header, chunk, lines)
                chunk, lines, self.size = [], [], 0
        if chunk:
            yield self.columns(header, chunk, lines)
        if wrong is not None:
            raise wrong

    def header(self, parsed: Iterator[list[str]]) -> list[str]:
        try:
            first = next(parsed, None)
        except BadRow:
            raise BrokenFile(f"the header is longer than {self.limit} bytes") from None
        except (csv.Error, UnicodeDecodeError) as failure:
            raise BrokenFile(f"the header is no UTF-8 CSV: {failure}") from None
        if not first:
            raise BrokenFile("the file is empty: it has no header" if first is None else "the first line is blank")
        header = [name.strip() for name in first]
        missing = [name for name in REQUIRED if name not in header]
        if missing:
            raise BrokenFile(f"the header has no {', '.join(missing)}: it is {shown(','.join(header), 200)}")
        twice = [name for name in COLUMNS if header.count(name) > 1]
        if twice:
            raise BrokenFile(f"the header has {twice[0]} twice")
        return header

    def columns(self, header: list[str], chunk: list[list[str]], lines: list[int]) -> Rows:
        fields = dict(zip(header, zip(*chunk, strict=True), strict=True))
        return rows_of(
            {name: list(fields[name]) for name in COLUMNS if name in fields}, self.row - len(chunk) + 1, lines
        )
