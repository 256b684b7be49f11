"""What holds for every format and compression."""

import hashlib
import itertools
import json
import sys

import pytest

from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.formats import FORMATS
from eos_assets.files.generate import make_transactions, write_file
from eos_assets.files.spool import spool
from eos_assets_tests.files.reading import read, reason
from eos_assets_tests.files.sample_files import GOOD, HEADER, put, row
from eos_assets_tests.files.web_server import WebServer, in_chunks, truncated, without_length

#: More rows than a batch, so that row numbers must count across batches.
ROWS = 12_000


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_transactions_in_order(access: Access, web: WebServer, name: str) -> None:
    assert access.root is not None
    wanted = list(make_transactions(ROWS, seed=3))
    path = write_file(access.root / f"a.{name}", wanted)
    assert read(path.as_uri(), access) == wanted
    data = path.read_bytes()
    web.files["/download"] = data
    checksum = f"sha256:{hashlib.sha256(data).hexdigest()}"
    declared = json.dumps({"url": web.url("/download"), "format": name, "checksum": checksum})
    assert read(declared, access) == wanted
    assert spool(reference.parse(declared.encode()), access).digest == checksum


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_of_a_truncated_file_is_delivered(access: Access, web: WebServer, name: str) -> None:
    assert access.root is not None
    data = write_file(access.root / f"a.{name}", make_transactions(2000)).read_bytes()
    cut = data[: data.rindex(b",") if name == "csv" else len(data) * 2 // 3]
    message = reason(put(access, f"cut.{name}", cut), access)
    assert "truncated" in message or "row " in message, message
    web.files[f"/cut.{name}"] = truncated(cut, len(data))
    message = reason(web.url(f"/cut.{name}"), access)
    missing_bytes = f"truncated: {len(cut)} of {len(data)} bytes received"
    assert missing_bytes in message or "truncated: the" in message or "row " in message, message
    assert "the file is empty" in reason(put(access, f"empty.{name}", b""), access)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_of_lines_needs_a_length_or_a_checksum(access: Access, web: WebServer, name: str) -> None:
    """A file of lines that is truncated between two lines looks whole; the other formats have an end of their own."""
    assert access.root is not None
    data = write_file(access.root / f"a.{name}", make_transactions(10)).read_bytes()
    web.files[f"/a.{name}"] = without_length(data)
    if name in ("csv", "jsonl"):
        missing = "the server does not declare the length, so a truncated file would look whole: declare a checksum"
        assert reason(web.url(f"/a.{name}"), access) == missing
    else:
        assert len(read(web.url(f"/a.{name}"), access)) == 10
    checksum = f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert len(read(json.dumps({"url": web.url(f"/a.{name}"), "checksum": checksum}), access)) == 10
    web.files[f"/chunks.{name}"] = in_chunks(data)
    assert len(read(web.url(f"/chunks.{name}"), access)) == 10


def test_no_whitespace_of_any_script_is_part_of_an_id_or_an_account(access: Access) -> None:
    spaces = [chr(code) for code in range(sys.maxunicode) if chr(code).isspace()]
    for space, name in itertools.product(spaces, ("transaction_id", "account")):
        text = f"A{space}1"
        message = reason(put(access, "a.jsonl", json.dumps(row(**{name: text}))), access)
        assert "without whitespace" in message, (name, text)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_a_wrong_encoding_is_reported_with_its_row(access: Access, name: str) -> None:
    assert access.root is not None
    rows = [{**transaction, "text": "ü"} for transaction in make_transactions(11_000)]
    rows[10_500]["text"] = "BAD"
    data = write_file(access.root / name, rows).read_bytes().replace(b"BAD", "ü".encode("latin-1"))
    message = reason(put(access, name, data), access)
    assert message.startswith("row 10501"), message
    assert "wrong encoding: byte 0xfc is not UTF-8" in message


def test_reading_a_row_stops_at_its_limit(access: Access) -> None:
    for name, content in {
        "a.csv": f"{HEADER}\n{GOOD}\n" + "x" * 3_000_000,
        "b.csv": f'{HEADER}\n{GOOD}\n"' + "short lines\n" * 250_000,
        "a.jsonl": json.dumps(row()) + "\n" + "x" * 3_000_000,
        "a.json": f'[{json.dumps(row())}, {{"text": "' + "x" * 3_000_000,
    }.items():
        message = reason(put(access, name, content), access)
        assert message.startswith("row 2"), message
        assert "longer than 1048576 bytes" in message


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.parquet"])
def test_a_row_that_is_too_large_for_a_record_is_reported(access: Access, name: str) -> None:
    assert access.root is not None
    good = {**row(), "text": ""}
    for text in ("x" * 999_900, '"' * 500_000):  # a quote takes two bytes in JSON
        url = write_file(access.root / name, [good, {**good, "text": text}]).as_uri()
        message = reason(url, access)
        assert message.startswith("row 2"), message
        assert "longer than 10" in message
    url = write_file(access.root / name, [good, {**good, "text": "x" * 999_000}]).as_uri()
    assert len(read(url, access)) == 2
