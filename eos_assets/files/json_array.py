"""Rows of a JSON array, read element by element: memory holds a batch of them, however long the array is.

`docs/decisions/0016-standard-library-for-files.md` explains why this is not ijson.
"""

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

from eos_assets.files.errors import FileError, RowError, quote
from eos_assets.files.json_rows import DECODER, ObjectBatch, describe_invalid_json
from eos_assets.files.rows import Rows, row_too_long, wrong_encoding

READ_BYTES = 1 << 18
WHITESPACE = " \t\r\n"
#: No punctuation and no literal of JSON is longer. A number may be, but a row is not a number.
LONGEST_TOKEN = 16


class TextBuffer:
    """The decoded text of a stream, from the current position on."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.text = ""
        self.position = 0
        self.ended = False
        #: The first bytes that are not UTF-8. The text ends before them.
        self.error: UnicodeDecodeError | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()

    @property
    def available(self) -> int:
        """The characters after the position that are in memory."""
        return len(self.text) - self.position

    def next_character(self) -> str:
        """Skip whitespace and return the next character, without consuming it; "" at the end."""
        while True:
            while self.position < len(self.text) and self.text[self.position] in WHITESPACE:
                self.position += 1
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.read_more():
                return ""

    def read_more(self, size: int = READ_BYTES) -> bool:
        """Append to the text and drop what is before the position; return False at the end."""
        if self.ended or self.error is not None:
            return False
        data = self.stream.read(size)
        self.ended = not data
        try:
            text = self._decoder.decode(data, final=self.ended)
        except UnicodeDecodeError as failure:
            self.error = failure
            text = failure.object[: failure.start].decode(errors="ignore")
        self.text = self.text[self.position :] + text
        self.position = 0
        return bool(text) or not (self.ended or self.error is not None)


class JsonArrayReader:
    """Reads one array once. The rows before an invalid one are returned before its error is raised."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self.buffer = TextBuffer(stream)
        self.limit = limit
        self.batch = ObjectBatch()

    @property
    def row(self) -> int:
        """The number of the row that is read."""
        return self.batch.row + 1

    def read(self) -> Iterator[Rows]:
        try:
            self.read_start()
            closed = self.buffer.next_character() == "]"
            while not closed:
                self.batch.add(*self.read_element())
                if self.batch.full:
                    yield from self.batch.take()
                closed = self.read_separator()
            self.read_end()
        except FileError:
            yield from self.batch.take()  # an error in a row before it is reported first
            raise
        yield from self.batch.take()

    def read_start(self) -> None:
        if self.buffer.next_character() != "[":
            self.check_encoding()
            raise FileError("not a JSON array" if self.buffer.text.strip() else "the file is empty")
        self.buffer.position += 1

    def read_separator(self) -> bool:
        """Read the comma after an element; return True at the end of the array, which is not read."""
        character = self.buffer.next_character()
        if character == "]":
            return True
        if character != ",":
            raise self.unexpected(f"{quote(character)} instead of , or ]")
        self.buffer.position += 1
        return False

    def read_end(self) -> None:
        self.buffer.position += 1
        if self.buffer.next_character():
            raise FileError("more content after the JSON array")
        self.check_encoding()

    def read_element(self) -> tuple[object, int]:
        """Read the next element, and return it with its size."""
        character = self.buffer.next_character()
        if character == "":
            raise self.unexpected("no element")
        if character == "]":
            raise RowError(self.row, "invalid JSON: no element between a comma and the ] of the array")
        while True:
            try:
                element, end = DECODER.raw_decode(self.buffer.text, self.buffer.position)
            except (ValueError, RecursionError) as failure:
                self.read_more_after(failure)
                continue
            size, self.buffer.position = end - self.buffer.position, end
            if size > self.limit:
                raise row_too_long(self.row, self.limit)
            return element, size

    def read_more_after(self, failure: Exception) -> None:
        """Read more if the element may be incomplete, else raise. Each time the text doubles, so that decoding an
        element repeatedly takes linear time."""
        reason = describe_invalid_json(failure)
        if not self.may_be_incomplete(failure):
            raise RowError(self.row, reason) from None
        if self.buffer.available > self.limit:
            raise row_too_long(self.row, self.limit) from None
        if not self.buffer.read_more(max(READ_BYTES, self.buffer.available)):
            raise self.unexpected(reason) from None

    def may_be_incomplete(self, failure: Exception) -> bool:
        """True for a string without an end, and for an error close to the end of the text."""
        if not isinstance(failure, json.JSONDecodeError):
            return False
        return failure.msg.startswith("Unterminated") or len(self.buffer.text) - failure.pos <= LONGEST_TOKEN

    def unexpected(self, reason: str) -> RowError:
        """The error at this position: the encoding, the end of the file, or else the reason."""
        if self.buffer.error is not None:
            return wrong_encoding(self.row, self.buffer.error)
        if self.buffer.ended:
            return RowError(self.row, "truncated: the JSON array ends in the middle")
        return RowError(self.row, reason)

    def check_encoding(self) -> None:
        """Raise if the text ends because the bytes after it are not UTF-8."""
        if self.buffer.error is not None:
            raise wrong_encoding(self.row, self.buffer.error)
