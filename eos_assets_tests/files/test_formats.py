"""Every format and compression, and everything that can be invalid in a file, each with its reason and its row."""

import errno
import gzip
import hashlib
import io
import itertools
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eos_assets.files import reference
from eos_assets.files import spool as spool_module
from eos_assets.files.access import Access
from eos_assets.files.errors import FileError, RowError
from eos_assets.files.formats import FORMATS
from eos_assets.files.generate import make_transactions, write_file
from eos_assets.files.json_array import JsonArrayReader
from eos_assets.files.json_rows import read_json_lines
from eos_assets.files.limits import Meter
from eos_assets.files.spool import spool
from eos_assets.files.task import read_file
from eos_assets.files.unpack import unpack
from eos_assets_tests.files.reading import read, reason
from eos_assets_tests.files.web_server import WebServer, in_chunks, truncated, without_length

HEADER = "transaction_id,account,amount,currency,booked_at,text"
GOOD = "T1,A1,-12.34,EUR,2026-05-04T09:30:00Z,rent"
#: More rows than a batch, so that row numbers must count across batches.
ROWS = 12_000


def put(access: Access, name: str, content: str | bytes) -> str:
    assert access.root is not None
    path = access.root / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path.as_uri()


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


@pytest.mark.parametrize("length", ["+138", "-1", "many", "138, 138", ""])
def test_an_invalid_content_length_is_reported(access: Access, web: WebServer, length: str) -> None:
    web.files["/a.csv"] = without_length(f"{HEADER}\n{GOOD}\n".encode(), **{"Content-Length": length})
    assert reason(web.url("/a.csv"), access) == f"the server's Content-Length is not valid: '{length}'"


def test_two_different_content_lengths_are_invalid(access: Access, web: WebServer) -> None:
    content = f"{HEADER}\n{GOOD}\n{GOOD}\n".encode()
    cut = len(content) - len(GOOD) - 1
    web.files["/a.csv"] = without_length(content, **{"Content-Length": str(cut), "content-length": str(len(content))})
    expected = f"the server's Content-Length is not valid: '{cut}, {len(content)}'"
    assert reason(web.url("/a.csv"), access) == expected


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (GOOD.replace("-12.34", "12,34"), "7 fields, the header has 6"),
        (GOOD.replace("-12.34", "1e3"), "amount '1e3' is not a decimal number"),
        (GOOD.replace("-12.34", "NaN"), "amount 'NaN' is not a decimal number"),
        (GOOD.replace("-12.34", ""), "amount is missing"),
        (GOOD.replace("T1", ""), "transaction_id is missing"),
        (GOOD.replace("A1", "A 1"), "account 'A 1' is not an account"),
        (GOOD.replace("EUR", "eur"), "currency 'eur' is not a currency code"),
        (GOOD.replace("2026-05-04", "2026-02-30"), "booked_at '2026-02-30T09:30:00Z' is not an ISO timestamp"),
        (GOOD.replace("T09", "x09"), "booked_at '2026-05-04x09:30:00Z' is not an ISO timestamp"),
        (GOOD.replace("rent", 'a "b" c').replace("-12.34", '"1'), "invalid CSV"),
        ("T1,A1,-12.34", "3 fields, the header has 6"),
    ],
)
@pytest.mark.parametrize("before", [2, 11_000])
def test_an_invalid_row_of_a_csv_is_reported(access: Access, before: int, wrong: str, expected: str) -> None:
    content = "\n".join([HEADER, *[GOOD] * before, wrong, *[GOOD] * 3, "even worse"])
    message = reason(put(access, "a.csv", content), access)
    assert message.startswith(f"row {before + 1} (line {before + 2}): "), message
    assert expected in message


def test_csv_is_read_as_it_is_written_elsewhere(access: Access) -> None:
    """A byte order mark, CRLF, quotes, line breaks in a field, more columns, another order, no final line break."""
    content = (
        "\ufeffcurrency,transaction_id,branch,account,booked_at,amount,text\r\n"
        'EUR,T1,9,A1,2026-05-04T11:30:00+02:00,5,"two\r\nlines, ""quoted"""\r\n'
        "\r\n"
        "USD,T2,9,A2,2026-05-04 09:30:00.5,-0.10,"
    )
    assert read(put(access, "a.csv", content), access) == [
        {"transaction_id": "T1", "account": "A1", "amount": "5", "currency": "EUR",
         "booked_at": "2026-05-04T09:30:00Z", "text": 'two\r\nlines, "quoted"'},
        {"transaction_id": "T2", "account": "A2", "amount": "-0.10", "currency": "USD",
         "booked_at": "2026-05-04T09:30:00.5Z", "text": ""},
    ]  # fmt: skip
    assert "the header has no amount" in reason(put(access, "b.csv", HEADER.replace("amount", "sum")), access)
    assert "account twice" in reason(put(access, "c.csv", f"{HEADER},account\n"), access)
    assert "the first line is blank" in reason(put(access, "f.csv", f"\n{HEADER}\n{GOOD}\n"), access)
    assert "the header is longer than" in reason(put(access, "g.csv", "x" * 3_000_000), access)
    assert read(put(access, "d.csv", f"{HEADER}\n"), access) == []
    crlf = f"{HEADER}\r\n{GOOD}\r\n\r\n{GOOD.replace('EUR', '€')}\r\n"
    assert reason(put(access, "e.csv", crlf), access).startswith("row 2 (line 4): currency")


def row(**changes: Any) -> dict[str, Any]:
    good = {"transaction_id": "T1", "account": "A1", "amount": "-12.34", "currency": "EUR"}
    return {**good, "booked_at": "2026-05-04T09:30:00Z", **changes}


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ('{"a": ', "invalid JSON"),
        ("[1, 2]", "is not a JSON object"),
        ("17", "is not a JSON object"),
        (json.dumps(row(amount=None)), "amount is missing"),
        (json.dumps(row(amount=[1])), "amount is \"['1']\", which is not a string"),
        (json.dumps(row(account=True)), "account is 'True', which is not a string"),
        (json.dumps(row(text="\ud800")), "which is not a string"),
        ('{"amount": NaN}', "NaN is not JSON"),
        (json.dumps(row())[:-1] + ', "amount": "9.00"}', "amount occurs twice"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_an_invalid_row_of_json_is_reported(access: Access, wrong: str, expected: str) -> None:
    good = [json.dumps(row())] * 3
    lines = reason(put(access, "a.jsonl", "\n".join([*good, wrong, *good])), access)
    assert lines.startswith("row 4 (line 4): "), lines
    assert expected in lines
    array = reason(put(access, "a.json", f"[{','.join([*good, wrong, *good])}]"), access)
    assert array.startswith("row 4: "), array


def test_a_repeated_name_in_another_column_is_ignored(access: Access) -> None:
    other = json.dumps(row())[:-1] + ', "other": 1, "other": {"amount": 1, "amount": 2}}'
    assert len(read(put(access, "a.jsonl", other), access)) == 1


@pytest.mark.parametrize("line", ["DEEP", '{"amount": DEEP}'])
def test_json_of_any_depth_is_an_invalid_row(line: str) -> None:
    """Some depths can be decoded but, a few calls later, not formatted for the reason."""
    for depth in range(1, 1100):
        content = line.replace("DEEP", "[" * depth + "]" * depth).encode()
        with pytest.raises(RowError, match=r"^row 1 "):
            list(read_json_lines(io.BytesIO(content), 1 << 20))


def test_numbers_in_json_keep_their_digits(access: Access) -> None:
    text = json.dumps(row(account=1)).replace('"-12.34"', "1234567890123456789012345.10")
    for name, content in (("a.jsonl", f"{text}\n\n{text}"), ("a.json", f" [ {text} , {text} ] ")):
        assert [transaction["amount"] for transaction in read(put(access, name, content), access)] == [
            "1234567890123456789012345.10"
        ] * 2
    assert read(put(access, "b.json", "[]"), access) == []
    assert "more content after" in reason(put(access, "c.json", "[] []"), access)
    assert "not a JSON array" in reason(put(access, "d.json", text), access)
    assert "instead of , or ]" in reason(put(access, "e.json", f"[{text} {text}]"), access)
    missing = "row 2: invalid JSON: no element between a comma and the ]"
    assert missing in reason(put(access, "f.json", f"[{text},]"), access)
    assert "row 2: truncated" in reason(put(access, "g.json", f"[{text},"), access)


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


def test_no_whitespace_of_any_script_is_part_of_an_id_or_an_account(access: Access) -> None:
    spaces = [chr(code) for code in range(sys.maxunicode) if chr(code).isspace()]
    for space, name in itertools.product(spaces, ("transaction_id", "account")):
        text = f"A{space}1"
        message = reason(put(access, "a.jsonl", json.dumps(row(**{name: text}))), access)
        assert "without whitespace" in message, (name, text)


def read_while_failing(access: Access, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> Iterator[pa.RecordBatch]:
    """The result for a valid file while a library raises this."""

    def fail(*_: object) -> None:
        raise failure

    url = put(access, "a.csv", f"{HEADER}\n{GOOD}\n")
    monkeypatch.setattr(spool_module, "encode_transactions", fail)
    return read_file(url.encode(), {"partition": 0, "offset": 0, "ordinal": 0}, access)


@pytest.mark.parametrize("failure", [KeyError("text"), IndexError("no row"), pa.ArrowNotImplementedError("later")])
def test_an_unexpected_error_of_a_library_is_one_dead_letter(
    access: Access, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    (batch,) = read_while_failing(access, monkeypatch, failure)
    assert batch["error"][0].as_py() == f"unexpected error: {type(failure).__name__}: {failure}"
    assert batch["content_digest"][0].is_valid


@pytest.mark.parametrize("failure", [MemoryError(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_error_of_the_system_is_not_a_dead_letter(
    access: Access, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    with pytest.raises(type(failure)):
        list(read_while_failing(access, monkeypatch, failure))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_a_wrong_encoding_is_reported_with_its_row(access: Access, name: str) -> None:
    assert access.root is not None
    rows = [{**transaction, "text": "ü"} for transaction in make_transactions(11_000)]
    rows[10_500]["text"] = "BAD"
    data = write_file(access.root / name, rows).read_bytes().replace(b"BAD", "ü".encode("latin-1"))
    message = reason(put(access, name, data), access)
    assert message.startswith("row 10501"), message
    assert "wrong encoding: byte 0xfc is not UTF-8" in message


def test_parquet_text_that_is_not_utf8_is_reported_with_its_row(access: Access) -> None:
    assert access.root is not None
    rows = [*make_transactions(5)]
    columns = {name: [str(transaction[name]) for transaction in rows] for name in rows[0]}
    invalid = pa.array([b"a", b"b", b"\xff", b"d", b"e"], pa.binary()).view(pa.string())
    url = parquet(access.root / "invalid.parquet", {**columns, "text": invalid})
    assert "row 3" in reason(url, access)
    assert "text is not UTF-8" in reason(url, access)


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


def test_the_limit_of_a_row_holds_for_a_complete_array_element_too(access: Access) -> None:
    long = json.dumps(row(other="x" * 1_100_000))
    assert reason(put(access, "a.json", f"[{long}]"), access) == "row 1: longer than 1048576 bytes"


def parquet(path: Path, columns: dict[str, Any]) -> str:
    pq.write_table(pa.table(columns), path)
    return path.as_uri()


def test_parquet_is_read_as_it_is_written_elsewhere(access: Access) -> None:
    assert access.root is not None
    columns: dict[str, Any] = {name: [value] * 3 for name, value in row().items()}
    exact = {
        "amount": pa.array([Decimal("-12.34")] * 3, pa.decimal128(38, 2)),
        "booked_at": pa.array([0, 1_500_000, 10_000_000], pa.timestamp("us")),
        "account": pa.array([7, 8, 9]),
    }
    delivered = read(parquet(access.root / "a.parquet", {**columns, **exact}), access)
    assert [row["account"] for row in delivered] == ["7", "8", "9"]
    assert {row["amount"] for row in delivered} == {"-12.34"}
    assert [row["booked_at"][-8:] for row in delivered] == ["0:00:00Z", "00:01.5Z", "0:00:10Z"]
    inexact = {**columns, "amount": [1.0, 2.0, 3.0]}
    assert "a float is not exact" in reason(parquet(access.root / "b.parquet", inexact), access)
    missing = {name: column for name, column in columns.items() if name != "currency"}
    assert "no column currency" in reason(parquet(access.root / "c.parquet", missing), access)
    bad = {**columns, "currency": ["EUR", "EUR", None]}
    assert reason(parquet(access.root / "d.parquet", bad), access) == "row 3: currency is missing"
    long = {**columns, "text": ["x", "y" * 2_000_000, "z"]}
    assert "longer than 1048576 bytes" in reason(parquet(access.root / "e.parquet", long), access)


def test_parquet_decimals_are_written_without_an_exponent(access: Access) -> None:
    assert access.root is not None
    wanted = {"12.34": "12.34", "0": "0.00", "-0.00000001": "-0.00000001", "1.5": "1.50", "100": "100.00"}
    columns: dict[str, Any] = {name: [value] * len(wanted) for name, value in row().items()}
    amounts = pa.array([Decimal(text) for text in wanted], pa.decimal128(38, 18))
    texts = pa.array(["x"] * len(wanted), pa.string_view())
    for given in (amounts, amounts.cast(pa.decimal256(50, 18))):
        delivered = read(parquet(access.root / "a.parquet", {**columns, "amount": given, "text": texts}), access)
        assert [row["amount"] for row in delivered] == list(wanted.values())
    whole = {**columns, "amount": pa.array([Decimal(5)] * len(wanted), pa.decimal128(38, 0))}
    assert read(parquet(access.root / "a.parquet", whole), access)[0]["amount"] == "5"
    small = {**columns, "amount": pa.array([Decimal("1e-11")] * len(wanted), pa.decimal128(38, 18))}
    assert "amount '0.00000000001' is not a decimal" in reason(parquet(access.root / "a.parquet", small), access)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_an_error_of_the_disk_is_not_a_damaged_file(access: Access, compression: str) -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        unpack(Failing(), compression, Meter(access.limits)).read(1)


def test_a_parquet_column_that_occurs_twice_is_reported(access: Access) -> None:
    assert access.root is not None
    columns = [*row().items(), ("amount", "1.00")]
    table = pa.table([pa.array([value]) for _, value in columns], names=[name for name, _ in columns])
    pq.write_table(table, access.root / "a.parquet")
    assert reason(f"file://{access.root}/a.parquet", access) == "the Parquet file has column amount twice"


def test_a_wrong_checksum_and_an_invalid_row_are_reported_with_the_digest(access: Access) -> None:
    content = f"{HEADER}\n{GOOD}\n"
    digest = f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
    wrong = json.dumps({"url": put(access, "a.csv", content), "checksum": "sha256:" + "0" * 64})
    assert reason(wrong, access) == f"wrong checksum: declared sha256:{'0' * 64}, found {digest}"
    bad = gzip.compress(f"{HEADER}\nbad\n{GOOD}\n".encode() * 1000)
    with pytest.raises(FileError, match="row 1") as failure:
        spool(reference.parse(put(access, "b.csv.gz", bad).encode()), access)
    assert failure.value.digest == f"sha256:{hashlib.sha256(bad).hexdigest()}", "of the whole compressed file"
