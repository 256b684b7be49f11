"""Decompression bombs and endless streams are stopped at a limit, and memory stays flat."""

import gzip
import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eos_assets.files.access import Access
from eos_assets.files.generate import make_transactions, write_file
from eos_assets.files.limits import Meter
from eos_assets.files.parquet_rows import read_parquet
from eos_assets_tests.files.reading import limited, reason
from eos_assets_tests.files.sample_files import GOOD, HEADER, put, row
from eos_assets_tests.files.web_server import WebServer, endless

LINE = f"{GOOD}\n"


@pytest.mark.parametrize("name", ["csv.gz", "csv.zst"])
def test_a_decompression_bomb_is_stopped(access: Access, name: str) -> None:
    content = f"{HEADER}\n{LINE * 420_000}".encode()  # 18 MB of one line
    packed = gzip.compress(content) if name == "csv.gz" else pa.compress(content, "zstd", asbytes=True)
    url = put(access, f"bomb.{name}", packed)
    message = reason(url, limited(access, max_ratio=50))
    assert message.startswith("a decompression bomb: ")
    assert "EOS_FILES_MAX_RATIO" in message
    assert "when unpacked" in reason(url, limited(access, max_ratio=10**6, max_unpacked_bytes=5_000_000))


def test_a_parquet_bomb_is_stopped_before_it_is_unpacked(access: Access) -> None:
    assert access.root is not None
    columns = {name: pa.array([value]).take(pa.array([0] * 400_000)) for name, value in row(text="y" * 50).items()}
    pq.write_table(pa.table(columns), access.root / "bomb.parquet", compression="zstd", use_dictionary=False)
    message = reason(f"file://{access.root}/bomb.parquet", limited(access, max_ratio=20))
    assert "decompression bomb" in message


def test_a_value_that_a_parquet_file_repeats_many_times_makes_small_batches(access: Access) -> None:
    """A file of some KB whose rows are 5 GB: a batch of the usual number of rows would hold all of them."""
    assert access.root is not None
    columns = {name: pa.array([value] * 10_000) for name, value in row().items()}
    columns["text"] = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["y" * 500_000])
    pq.write_table(pa.table(columns), access.root / "a.parquet")
    assert (access.root / "a.parquet").stat().st_size < 100_000
    with (access.root / "a.parquet").open("rb") as file:
        first = next(read_parquet(file, 10**9, Meter(access.limits)))
    assert len(first.columns["text"]) == 8


def test_the_limits_of_a_parquet_file_hold_for_its_rows_not_its_footer(access: Access) -> None:
    """Its footer counts the bytes of a dictionary once, and its rows repeat them."""
    assert access.root is not None
    columns = {name: pa.array([value] * 10_000) for name, value in row().items()}
    columns["text"] = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["y" * 50_000])
    pq.write_table(pa.table(columns), access.root / "a.parquet")
    url = f"file://{access.root}/a.parquet"
    assert "decompression bomb" in reason(url, access)
    message = reason(url, limited(access, max_ratio=10**6, max_unpacked_bytes=100_000_000))
    assert "too large: more than 100000000 bytes when unpacked" in message


def test_an_endless_stream_is_stopped_at_the_limit(access: Access, web: WebServer) -> None:
    web.files["/endless.csv"] = endless(LINE.encode() * 1000)
    message = reason(web.url("/endless.csv"), limited(access, max_bytes=3_000_000))
    assert message == "too large: more than 3000000 bytes (EOS_FILES_MAX_BYTES)"
    assert web.sent < 30_000_000, "only what was already on its way"


def test_a_declared_size_is_checked_before_anything_is_fetched(access: Access, web: WebServer) -> None:
    content = f"{HEADER}\n{LINE * 1000}".encode()
    web.files["/a.csv"] = content
    assert "too large: 43054 bytes" in reason(web.url("/a.csv"), limited(access, max_bytes=1000))
    assert "too large: 43054 bytes" in reason(put(access, "a.csv", content), limited(access, max_bytes=1000))


MEMORY = """
import sys, threading
from pathlib import Path
import psutil
from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.spool import spool

access, process, peak = Access(root=Path(sys.argv[1])), psutil.Process(), 0

def watch():
    global peak
    while True:
        peak = max(peak, process.memory_info().rss)
        threading.Event().wait(0.005)

assert spool(reference.parse(sys.argv[2].encode()), access).rows == 10
before, rows = process.memory_info().rss, 0
threading.Thread(target=watch, daemon=True).start()
for url in sys.argv[3:]:
    rows += sum(batch.num_rows for batch in spool(reference.parse(url.encode()), access).batches())
print(rows, (peak - before) / 2**20)
"""


def test_memory_stays_flat(access: Access) -> None:
    """Four files of 100 MB each: if rows were collected anywhere, they would take more than 150 MB."""
    assert access.root is not None
    rows = [
        {**transaction, "text": random.Random(n).randbytes(6000).hex()}
        for n, transaction in enumerate(make_transactions(8_000))
    ]
    urls = [write_file(access.root / "small.csv", rows[:10]).as_uri()]
    for name in ("csv", "jsonl.zst", "json", "parquet"):
        urls.append(write_file(access.root / f"large.{name}", rows).as_uri())
    run = subprocess.run([sys.executable, "-c", MEMORY, str(access.root), *urls], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    count, megabytes = run.stdout.split()
    assert int(count) == 32_000
    assert float(megabytes) < 125
