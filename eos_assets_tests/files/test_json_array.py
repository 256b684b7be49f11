"""JSON arrays: where their bytes are cut, their encoding and the size of an element."""

import io
import json

import pytest

from eos_assets.files.access import Access
from eos_assets.files.json_array import JsonArrayReader
from eos_assets_tests.files.reading import reason
from eos_assets_tests.files.sample_files import put, row


@pytest.mark.parametrize("size", [1, 2, 5, 17])
def test_an_array_is_the_same_wherever_its_bytes_are_cut(size: int) -> None:
    class ShortReads(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            return super().read(size)

    objects = [row(text='ü "\\ 😀', other=[True, None, {"a": -1.5e3}]), row(amount="0", account="A2"), row(text="")]
    content = json.dumps(objects, ensure_ascii=False, indent=1) + " \n"
    (rows,) = JsonArrayReader(ShortReads(content.encode()), 1 << 20).read()
    assert rows.columns["text"].to_pylist() == ['ü "\\ 😀', None, ""]
    assert rows.columns["account"].to_pylist() == ["A1", "A2", "A1"]
    (escaped,) = JsonArrayReader(ShortReads(json.dumps(objects).encode()), 1 << 20).read()
    assert escaped.columns == rows.columns


@pytest.mark.parametrize("after", [b"\xff\xfe garbage", b"\n\xe2\x82", b" " * 300_000 + b"\xff{"])
def test_bytes_after_an_array_that_are_not_text_are_reported(access: Access, after: bytes) -> None:
    message = reason(put(access, "a.json", f"[{json.dumps(row())}]".encode() + after), access)
    assert message.startswith("row 2: wrong encoding: byte 0x"), message


def test_an_array_in_another_encoding_is_not_taken_for_empty(access: Access) -> None:
    message = reason(put(access, "a.json", f"[{json.dumps(row())}]".encode("utf-16")), access)
    assert message == "row 1: wrong encoding: byte 0xff is not UTF-8"
    assert reason(put(access, "b.json", " \n"), access) == "the file is empty"


def test_the_limit_of_a_row_holds_for_a_complete_array_element_too(access: Access) -> None:
    long = json.dumps(row(other="x" * 1_100_000))
    assert reason(put(access, "a.json", f"[{long}]"), access) == "row 1: longer than 1048576 bytes"
