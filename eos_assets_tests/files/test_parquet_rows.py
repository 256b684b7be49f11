"""Parquet as other programs write it, and damaged and hostile files: each has a reason, and the worker survives."""

import base64
import io
import subprocess
import sys
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eos_assets.files.access import Access
from eos_assets.files.generate import make_transactions
from eos_assets_tests.files.reading import read, reason
from eos_assets_tests.files.sample_files import parquet, put, row

#: One bit of its footer is wrong. Reading the metadata of the first column chunk ends the process.
DEADLY = (
    "c-oayO-sW-6x?phS|tdDZrCk3<X}S&rX=YHSOSuRHxH%M9wb;|8nCEIO;g3c<8Scb*&imp#I|liK!n}5VVIeheUprxiAfP<l$}xx4}=nBh&p&`GT"
    "4m<LI|h3lGbS{)d8wgq&g{8rD~2!bkpkg`fPg&5(4!H1a^zIa<b~h)r6%*5LBT80wkN-Id;=Btf6iUbfZ5t&PF|BWEj`16czlMP|GN^#vcZVk+pv"
    "pJbLs9QRxJ;<0SUNwdW_xD4Z`BZFH%Co=R=Z4m{tFHen)S#Ct44b$=7bLFm7V;Nfi)-3N=gx1-9KE8NwPLM7fNh!-1EV8}Chrq%6SXk3ALAc~PK*"
    "Er!?c1giz_mX@4jh##KFa7pHnLLz3?Y&}`#w++pWj^~UWKOQ^YH!#sBrbT6GLPS(WhS2$SlU-+^S@6)Xw=y^l0RxP*6MJej=J*Vr%jOP{%WOraU8"
    "v<&q2I~C{%0MHM%BuAvAHJbMP3$FZK=7>V(M"
)
#: Reads a file, and prints why it is not delivered.
READ = """
import sys
from pathlib import Path
from eos_assets.files.access import Access
from eos_assets_tests.files.reading import reason
print(reason(Path(sys.argv[1]).as_uri(), Access(root=Path(sys.argv[1]).parent)))
"""
#: Reads a file many times, each time with another bit of its footer flipped.
FUZZ = """
import random, sys
from pathlib import Path
from eos_assets.files.access import Access
from eos_assets.files.task import read_file

path, chance, dead = Path(sys.argv[1]), random.Random(7), 0
data = path.read_bytes()
footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
for _ in range(400):
    flipped = bytearray(data)
    flipped[chance.randrange(footer, len(data) - 8)] ^= 1 << chance.randrange(8)
    path.write_bytes(flipped)
    origin = {"partition": 0, "offset": 0, "ordinal": 0}
    batches = list(read_file(path.as_uri().encode(), origin, Access(root=path.parent)))
    dead += batches[0]["error"][0].is_valid
print(dead)
"""


def run(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)


def test_a_footer_that_could_end_the_process_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(zlib.decompress(base64.b85decode(DEADLY)))
    ended = run(READ, path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("the Parquet file is damaged after row 0")


def test_a_flipped_bit_of_a_footer_affects_only_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: [value] * 3 for name, value in row().items()}), path, store_schema=False)
    ended = run(FUZZ, path)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 100


def test_nested_columns_are_ignored_whatever_their_names(access: Access) -> None:
    assert access.root is not None
    more = {"extra": [{"text": "x", "amount": "5"}], "text.amount": ["q"], "list": [["y"]]}
    url = parquet(access.root / "a.parquet", {**{name: [value] for name, value in row().items()}, **more})
    assert read(url, access) == [{**row(), "text": ""}]


def test_a_footer_beyond_its_limit_is_not_read(access: Access) -> None:
    assert access.root is not None
    size = 300 << 20
    with (access.root / "a.parquet").open("wb") as file:
        file.write(b"PAR1")
        file.seek(size)  # a hole: it takes no space
        file.write(size.to_bytes(4, "little") + b"PAR1")
    expected = f"the footer of the Parquet file has {size} bytes, the limit is {64 << 20}"
    assert reason(f"file://{access.root}/a.parquet", access) == expected


def test_a_page_with_a_wrong_checksum_is_reported(access: Access) -> None:
    columns = {name: [value] * 3 for name, value in row().items()} | {"amount": ["100.00", "200.00", "300.00"]}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="none", use_dictionary=False, write_page_checksum=True)
    assert len(read(put(access, "a.parquet", out.getvalue()), access)) == 3
    changed = out.getvalue().replace(b"200.00", b"900.00")
    assert "CRC checksum verification failed" in reason(put(access, "a.parquet", changed), access)


def test_parquet_text_that_is_not_utf8_is_reported_with_its_row(access: Access) -> None:
    assert access.root is not None
    rows = [*make_transactions(5)]
    columns = {name: [str(transaction[name]) for transaction in rows] for name in rows[0]}
    invalid = pa.array([b"a", b"b", b"\xff", b"d", b"e"], pa.binary()).view(pa.string())
    url = parquet(access.root / "invalid.parquet", {**columns, "text": invalid})
    assert "row 3" in reason(url, access)
    assert "text is not UTF-8" in reason(url, access)


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


def test_a_parquet_column_that_occurs_twice_is_reported(access: Access) -> None:
    assert access.root is not None
    columns = [*row().items(), ("amount", "1.00")]
    table = pa.table([pa.array([value]) for _, value in columns], names=[name for name, _ in columns])
    pq.write_table(table, access.root / "a.parquet")
    assert reason(f"file://{access.root}/a.parquet", access) == "the Parquet file has column amount twice"
