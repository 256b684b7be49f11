"""What a record may refer to, and by which format it is read."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.files.broken import BrokenFile
from eos_assets.files.formats import FORMATS, Format, format_of
from eos_assets.files.reference import Reference, parse, public

DIGEST = "sha256:" + "0f" * 32


def test_a_reference_is_a_url_or_json() -> None:
    assert parse(b" file:///in/a.csv\n") == Reference("file:///in/a.csv", Format("csv"))
    declared = {
        "url": "https://example.com/a?x=1",
        "format": "jsonl.zst",
        "checksum": DIGEST,
        "sent_by": "another field is left out",
    }
    assert parse(json.dumps(declared).encode()) == Reference(
        "https://example.com/a?x=1", Format("jsonl", "zstd"), DIGEST
    )
    assert parse(b'{"url": "file:///a.csv", "format": null, "checksum": null}').checksum is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "has no value"),
        (b"", "is no URL"),
        (b"incoming/a.csv", "is no URL"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{", "looks like JSON"),
        (b"{}", "no `url`"),
        (b'{"url": 7}', "`url` of the reference is no text"),
        (b'{"url": "file:///a.csv", "checksum": "md5:00"}', "is not sha256:"),
        (b'{"url": "file:///a.csv", "format": "xml"}', "unknown format 'xml'"),
        (b'{"url": "file:///a.csv", "checksum": ""}', "checksum '' is not sha256:"),
        (b'{"url": "file:///a.csv", "format": ""}', "unknown format ''"),
        (b'{"url": "file:///a.csv", "sha256": "00"}', "has a field 'sha256'; say `checksum`"),
        (b'{"url": "file:///a.csv", "fileHash": "00"}', "has a field 'fileHash'; say `checksum`"),
        (b'{"url": "file:///a.csv", "url": "file:///b.csv"}', "has `url` twice"),
        (b'{"url": "file:///a.csv", "checksum": null, "checksum": null}', "has `checksum` twice"),
        (b"file:///a.xml", "unknown format: the name 'a.xml'"),
        (b"file:///a.gz", "unknown format"),
        (b"file:///a b.csv", "holds blanks"),
        (b"http://example.com\\@evil/a.csv", "backslashes"),
        (b"http://user:hunter2@example.com/a.csv", "carries credentials"),
        (b"http://[::1/a.csv", "no URL"),
        (b"http://example.com:99999/a.csv", "no URL"),
        (b"file:///" + b"a" * 9000 + b".csv", "at most 8192"),
    ],
)
def test_what_is_no_reference_is_told(value: bytes | None, told: str) -> None:
    with pytest.raises(BrokenFile) as wrong:
        parse(value)
    assert told in wrong.value.reason
    assert "hunter2" not in wrong.value.reason


def test_the_format_is_declared_or_told_by_the_name() -> None:
    for name in FORMATS:
        kind, _, packed = name.partition(".")
        expected = Format(kind, {"": None, "gz": "gzip", "zst": "zstd"}[packed])
        assert format_of(None, f"/in/2026.05/file.of.may.{name.upper()}") == expected
        assert format_of(name, "/in/file") == expected
    assert format_of("csv", "/in/a.csv.gz") == Format("csv", "gzip"), "a name may add the compression"
    assert format_of("csv+gzip", "/in/a.dat") == Format("csv", "gzip")
    assert format_of("jsonl", "/in/a.csv") == Format("jsonl"), "a declaration wins over the name"


def test_a_signature_in_a_url_is_not_shown() -> None:
    assert public("https://example.com/a.csv?signature=s3cret#x") == "https://example.com/a.csv?…"


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_value_breaks_more_than_itself(value: bytes) -> None:
    with contextlib.suppress(BrokenFile):
        assert parse(value).url
