"""References in records, and the format of the file that they name."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.files.errors import FileError
from eos_assets.files.formats import FORMATS, Format, format_of
from eos_assets.files.reference import Reference, parse, without_query

DIGEST = "sha256:" + "0f" * 32


def test_a_reference_is_a_url_or_json() -> None:
    assert parse(b" file:///in/a.csv\n") == Reference("file:///in/a.csv", Format("csv"))
    declared = {
        "url": "https://example.com/a?x=1",
        "format": "jsonl.zst",
        "checksum": DIGEST,
        "sent_by": "another field is ignored",
    }
    assert parse(json.dumps(declared).encode()) == Reference(
        "https://example.com/a?x=1", Format("jsonl", "zstd"), DIGEST
    )
    assert parse(b'{"url": "file:///a.csv", "format": null, "checksum": null}').checksum is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "has no value"),
        (b"", "is not a URL"),
        (b"incoming/a.csv", "is not a URL"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{", "begins like JSON"),
        (b"{}", "no `url`"),
        (b'{"url": 7}', "`url` of the reference is not a string"),
        (b'{"url": "file:///a.csv", "checksum": "md5:00"}', "is not sha256:"),
        (b'{"url": "file:///a.csv", "format": "xml"}', "unknown format 'xml'"),
        (b'{"url": "file:///a.csv", "checksum": ""}', "checksum '' is not sha256:"),
        (b'{"url": "file:///a.csv", "format": ""}', "unknown format ''"),
        (b'{"url": "file:///a.csv", "sha256": "00"}', "has a field 'sha256'; use `checksum`"),
        (b'{"url": "file:///a.csv", "fileHash": "00"}', "has a field 'fileHash'; use `checksum`"),
        (b'{"url": "file:///a.csv", "url": "file:///b.csv"}', "has `url` twice"),
        (b'{"url": "file:///a.csv", "checksum": null, "checksum": null}', "has `checksum` twice"),
        (b"file:///a.xml", "unknown format: the name 'a.xml'"),
        (b"file:///a.gz", "unknown format"),
        (b"file:///a b.csv", "contains whitespace"),
        (b"http://example.com\\@evil/a.csv", "backslashes"),
        (b"http://user:hunter2@example.com/a.csv", "contains credentials"),
        (b"http://[::1/a.csv", "invalid URL"),
        (b"http://example.com:99999/a.csv", "invalid URL"),
        (b"file:///" + b"a" * 9000 + b".csv", "the limit is 8192"),
    ],
)
def test_an_invalid_reference_is_rejected_with_its_reason(value: bytes | None, expected: str) -> None:
    with pytest.raises(FileError) as failure:
        parse(value)
    assert expected in failure.value.reason
    assert "hunter2" not in failure.value.reason


def test_the_format_is_declared_or_taken_from_the_name() -> None:
    for name in FORMATS:
        kind, _, packed = name.partition(".")
        expected = Format(kind, {"": None, "gz": "gzip", "zst": "zstd"}[packed])
        assert format_of(None, f"/in/2026.05/file.of.may.{name.upper()}") == expected
        assert format_of(name, "/in/file") == expected
    assert format_of("csv", "/in/a.csv.gz") == Format("csv", "gzip"), "a name may add the compression"
    assert format_of("csv+gzip", "/in/a.dat") == Format("csv", "gzip")
    assert format_of("jsonl", "/in/a.csv") == Format("jsonl"), "a declaration wins over the name"


def test_a_signature_in_a_url_is_not_shown() -> None:
    assert without_query("https://example.com/a.csv?signature=s3cret#x") == "https://example.com/a.csv?…"


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_value_is_parsed_or_rejected(value: bytes) -> None:
    with contextlib.suppress(FileError):
        assert parse(value).url
