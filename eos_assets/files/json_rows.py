"""JSON lines, or one JSON array, in; rows out. Numbers keep their digits: an amount is never a float."""

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from eos_assets.files.broken import BadRow, BrokenFile, shown
from eos_assets.files.rows import BATCH, BATCH_BYTES, COLUMNS, Rows, lines_of, rows_of, too_long, wrong_encoding

CHUNK = 1 << 18
SPACE = " \t\r\n"
#: No sign and no word of JSON is longer; a number may be, but none is in the place of a row.
LONGEST_WORD = 16


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


class Repeated(dict[str, Any]):
    """An object that says twice what one of our columns is: which of them is meant, nobody knows."""

    name = ""


def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    twice = [name for name in COLUMNS if names.count(name) > 1]
    if twice:
        found = Repeated(found)
        found.name = twice[0]
    return found


DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=refuse, object_pairs_hook=as_object)


class Chunk:
    """Rows that are collected until they make a batch."""

    def __init__(self) -> None:
        self.row = 0
        self.objects: list[dict[str, Any]] = []
        self.lines: list[int] = []
        self.size = 0

    def add(self, found: object, size: int, line: int | None = None) -> None:
        if not isinstance(found, dict):
            what = "an array" if isinstance(found, list) else shown(json.dumps(found))
            raise BadRow(self.row + 1, f"{what} is no JSON object", line)
        if isinstance(found, Repeated):
            raise BadRow(self.row + 1, f"{found.name} stands there twice", line)
        self.row += 1
        self.size += size
        self.objects.append(found)
        if line is not None:
            self.lines.append(line)

    @property
    def full(self) -> bool:
        return len(self.objects) == BATCH or self.size > BATCH_BYTES

    def take(self) -> Iterator[Rows]:
        if self.objects:
            values = {name: [found.get(name) for found in self.objects] for name in COLUMNS}
            first, lines = self.row - len(self.objects) + 1, self.lines or None
            self.objects, self.lines, self.size = [], [], 0
            yield rows_of(values, first, lines)


def json_lines(stream: BinaryIO, limit: int) -> Iterator[Rows]:
    """One object in each line; empty lines are left out."""
    chunk = Chunk()
    number = 0
    try:
        for line in lines_of(stream, limit):
            number += 1
            if len(line) > limit:
                raise too_long(chunk.row + 1, limit, number)
            if not line.isspace():
                chunk.add(decoded(line, chunk.row + 1, number), len(line), number)
            if chunk.full:
                yield from chunk.take()
    except BadRow:
        yield from chunk.take()  # what is wrong before it comes first
        raise
    yield from chunk.take()
    if not number:
        raise BrokenFile("the file is empty")


def decoded(line: bytes, row: int, number: int) -> object:
    try:
        return DECODER.decode(line.removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError as failure:
        raise wrong_encoding(row, failure, number) from None
    except (ValueError, RecursionError) as failure:
        raise BadRow(row, f"no JSON: {why(failure)}", number) from None


def why(failure: Exception) -> str:
    if isinstance(failure, json.JSONDecodeError):
        return f"{failure.msg} at character {failure.pos + 1}"
    return "it is nested too deep" if isinstance(failure, RecursionError) else str(failure)


def json_array(stream: BinaryIO, limit: int) -> Iterator[Rows]:
    """The objects of one array, read a piece at a time: memory holds a batch of them, however long the array is."""
    return JsonArray(stream, limit).rows()


class JsonArray:
    """Walks along an array. `text[at:]` is what is known of the rest."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self.stream = stream
        self.limit = limit
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.text = ""
        self.at = 0
        self.ended = False
        self.wrong: UnicodeDecodeError | None = None
        self.chunk = Chunk()

    def rows(self) -> Iterator[Rows]:
        try:
            if self.next_sign() != "[":
                self.check_text()
                raise BrokenFile("the file is empty" if not self.text.strip() else "it is no JSON array")
            self.at += 1
            closed = self.next_sign() == "]"
            while not closed:
                self.chunk.add(*self.element())
                if self.chunk.full:
                    yield from self.chunk.take()
                sign = self.next_sign()
                closed = sign == "]"
                if not closed and sign != ",":
                    raise self.stuck(f"{shown(sign)} instead of , or ]")
                self.at += 1 - closed
            self.at += 1
            if self.next_sign():
                raise BrokenFile("something follows the JSON array")
            self.check_text()
        except BrokenFile:
            yield from self.chunk.take()
            raise
        yield from self.chunk.take()

    def next_sign(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in SPACE:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def check_text(self) -> None:
        """At an end: whether it is one, or bytes that are no text stand there."""
        if self.wrong is not None:
            raise wrong_encoding(self.chunk.row + 1, self.wrong)

    def element(self) -> tuple[object, int]:
        """The next element and its size."""
        sign = self.next_sign()
        if sign == "":
            raise self.stuck("")
        if sign == "]":
            raise BadRow(self.chunk.row + 1, "no JSON: a comma and no row before the ] of the array")
        while True:
            try:
                found, end = DECODER.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as failure:
                if not self.may_go_on(failure):
                    raise BadRow(self.chunk.row + 1, f"no JSON: {why(failure)}") from None
                if len(self.text) - self.at > self.limit:
                    raise too_long(self.chunk.row + 1, self.limit) from None
                if not self.more(double=True):
                    raise self.stuck(f"no JSON: {why(failure)}") from None
            else:
                size, self.at = end - self.at, end
                if size > self.limit:
                    raise too_long(self.chunk.row + 1, self.limit)
                return found, size

    def may_go_on(self, failure: Exception) -> bool:
        """Whether it may be right with what follows: a string without an end, or an end within a word."""
        if not isinstance(failure, json.JSONDecodeError):
            return False
        return failure.msg.startswith("Unterminated") or len(self.text) - failure.pos <= LONGEST_WORD

    def stuck(self, reason: str) -> BrokenFile:
        """What is wrong here: bytes that are no text, an end in the middle, or what was found."""
        row = self.chunk.row + 1
        if self.wrong is not None:
            return wrong_encoding(row, self.wrong)
        if self.ended:
            return BadRow(row, "truncated: the JSON array ends in the middle")
        return BadRow(row, reason)

    def more(self, *, double: bool = False) -> bool:
        """Reads on; False at the end. What is behind us is forgotten."""
        if self.ended or self.wrong is not None:
            return False
        data = self.stream.read(max(CHUNK, len(self.text) - self.at) if double else CHUNK)
        self.ended = not data
        try:
            text = self.decoder.decode(data, final=self.ended)
        except UnicodeDecodeError as failure:
            self.wrong = failure
            text = failure.object[: failure.start].decode(errors="ignore")
        self.text = self.text[self.at :] + text
        self.at = 0
        return bool(text) or not (self.ended or self.wrong is not None)
