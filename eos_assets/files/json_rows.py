"""Rows of JSON lines, and the decoder of all JSON files. Numbers keep their digits: an amount is never a float."""

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from eos_assets.files.errors import FileError, RowError, quote
from eos_assets.files.rows import (
    BATCH_BYTES,
    BATCH_ROWS,
    COLUMNS,
    Rows,
    read_lines,
    row_too_long,
    rows_from_values,
    wrong_encoding,
)


class RepeatedName(dict[str, Any]):
    """An object that has one of our columns twice, so its value is ambiguous."""

    name = ""


def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) == len(pairs):
        return content
    names = [name for name, _ in pairs]
    repeated = [name for name in COLUMNS if names.count(name) > 1]
    if repeated:
        content = RepeatedName(content)
        content.name = repeated[0]
    return content


def reject_constant(constant: str) -> NoReturn:
    """`NaN` and `Infinity`, which Python's decoder accepts."""
    raise ValueError(f"{constant} is not JSON")


DECODER = json.JSONDecoder(
    parse_float=str, parse_int=str, parse_constant=reject_constant, object_pairs_hook=read_object
)


class ObjectBatch:
    """Collects the objects of consecutive rows until they make a batch."""

    def __init__(self) -> None:
        #: The number of the last row that was added.
        self.row = 0
        self.objects: list[dict[str, Any]] = []
        self.lines: list[int] = []
        self.size = 0

    def add(self, content: object, size: int, line: int | None = None) -> None:
        if not isinstance(content, dict):
            value = "an array" if isinstance(content, list) else quote(json.dumps(content))
            raise RowError(self.row + 1, f"{value} is not a JSON object", line)
        if isinstance(content, RepeatedName):
            raise RowError(self.row + 1, f"{content.name} occurs twice", line)
        self.row += 1
        self.size += size
        self.objects.append(content)
        if line is not None:
            self.lines.append(line)

    @property
    def full(self) -> bool:
        return len(self.objects) == BATCH_ROWS or self.size > BATCH_BYTES

    def take(self) -> Iterator[Rows]:
        """Return the collected rows, if there are any, and begin the next batch."""
        if self.objects:
            values = {name: [content.get(name) for content in self.objects] for name in COLUMNS}
            first, lines = self.row - len(self.objects) + 1, self.lines or None
            self.objects, self.lines, self.size = [], [], 0
            yield rows_from_values(values, first, lines)


def read_json_lines(stream: BinaryIO, limit: int) -> Iterator[Rows]:
    """Read one object from each line. Empty lines are ignored."""
    batch = ObjectBatch()
    number = 0
    try:
        for number, line in enumerate(read_lines(stream, limit), 1):
            if len(line) > limit:
                raise row_too_long(batch.row + 1, limit, number)
            if not line.isspace():
                batch.add(decode_line(line, batch.row + 1, number), len(line), number)
            if batch.full:
                yield from batch.take()
    except RowError:
        yield from batch.take()  # an error in a row before it is reported first
        raise
    yield from batch.take()
    if not number:
        raise FileError("the file is empty")


def decode_line(line: bytes, row: int, number: int) -> object:
    try:
        return DECODER.decode(line.removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError as failure:
        raise wrong_encoding(row, failure, number) from None
    except (ValueError, RecursionError) as failure:
        raise RowError(row, describe_invalid_json(failure), number) from None


def describe_invalid_json(failure: Exception) -> str:
    if isinstance(failure, json.JSONDecodeError):
        return f"invalid JSON: {failure.msg} at character {failure.pos + 1}"
    if isinstance(failure, RecursionError):
        return "invalid JSON: it is nested too deep"
    return f"invalid JSON: {failure}"
