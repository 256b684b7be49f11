"""Decompression bombs, endless streams and slow servers are stopped at a limit, and memory stays flat."""

import contextlib
import gzip
import random
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eos_assets.files.access import Access, parse_host
from eos_assets.files.errors import LimitExceeded
from eos_assets.files.generate import make_transactions, write_file
from eos_assets.files.limits import Meter
from eos_assets.files.parquet_rows import read_parquet
from eos_assets.files.web import open_web
from eos_assets_tests.files.reading import read, reason
from eos_assets_tests.files.test_formats import HEADER, put, row
from eos_assets_tests.files.web_server import Handler, WebServer, dripping, endless

LINE = "T1,A1,-12.34,EUR,2026-05-04T09:30:00Z,rent\n"


def limited(access: Access, **limits: float) -> Access:
    return replace(access, limits=replace(access.limits, **limits))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("where", ["body", "headers", "nothing"])
def test_a_slow_server_is_abandoned_at_the_time_limit(access: Access, web: WebServer, where: str) -> None:
    def headers(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        dripping(b"x", 0.05)(handler)

    def nothing(handler: Handler) -> None:
        handler.begin(200, {"Content-Length": "100"})
        threading.Event().wait(5)

    web.files["/slow.csv"] = {"body": dripping(b"x", 0.05), "headers": headers, "nothing": nothing}[where]
    begun = time.monotonic()
    message = reason(web.url("/slow.csv"), limited(access, max_seconds=1))
    assert message == "the file takes longer than 1 s (EOS_FILES_MAX_SECONDS)"
    assert time.monotonic() - begun < 4


def test_addresses_that_do_not_answer_share_the_time(access: Access) -> None:
    """The queues of these servers are full, so a connection waits, at each of them for all of the time."""
    with contextlib.ExitStack() as servers:
        port = 0
        addresses = [f"127.0.0.{number}" for number in range(1, 7)]
        for address in addresses:
            server = servers.enter_context(socket.create_server((address, port), backlog=0))
            port = server.getsockname()[1]
            servers.enter_context(socket.create_connection((address, port)))
        hosts = tuple(map(parse_host, (f"a.example:{port}", *addresses)))
        names = replace(limited(access, max_seconds=1), hosts=hosts)
        entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]
        begun = time.monotonic()
        with pytest.raises(LimitExceeded, match="takes longer than 1 s"):
            open_web(f"http://a.example:{port}/a.csv", names, Meter(names.limits), lambda *_, **__: entries).__enter__()
        assert time.monotonic() - begun < 4


def test_a_slow_handshake_is_abandoned_at_the_time_limit(access: Access) -> None:
    def drip(server: socket.socket) -> None:
        wire, _ = server.accept()
        with wire, contextlib.suppress(OSError):
            wire.sendall(b"\x16\x03\x03\x40\x00")  # a long handshake record follows byte by byte
            while True:
                wire.sendall(b"\x02")
                threading.Event().wait(0.05)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        message = reason(
            f"https://{address}/a.csv", limited(replace(access, hosts=(parse_host(address),)), max_seconds=1)
        )
        assert message == "the file takes longer than 1 s (EOS_FILES_MAX_SECONDS)"
        assert time.monotonic() - begun < 4
        thread.join(5)


def test_a_busy_server_is_retried_and_a_missing_file_is_not(access: Access, web: WebServer) -> None:
    content = f"{HEADER}\n{LINE}".encode()

    def busy(handler: Handler) -> None:
        if len(web.requests) < 3:
            handler.begin(503, {"Content-Length": "0"})
        else:
            handler.begin(200, {"Content-Length": str(len(content))})
            handler.write(content)

    web.files["/busy.csv"] = busy
    assert len(read(web.url("/busy.csv"), access)) == 1
    assert len(web.requests) == 3
    assert reason(web.url("/missing.csv"), access) == "not found (HTTP 404)"
    assert len(web.requests) == 4
    web.files["/forbidden.csv"] = lambda handler: handler.begin(403, {"Content-Length": "0"})
    assert reason(web.url("/forbidden.csv"), access) == "the server answers HTTP 403 Forbidden"


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
