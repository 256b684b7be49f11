"""Web servers that are slow, busy or declare an invalid length."""

import contextlib
import socket
import threading
import time
from dataclasses import replace

import pytest

from eos_assets.files.access import Access, parse_host
from eos_assets.files.errors import LimitExceeded
from eos_assets.files.limits import Meter
from eos_assets.files.web import open_web
from eos_assets_tests.files.reading import limited, read, reason
from eos_assets_tests.files.sample_files import GOOD, HEADER
from eos_assets_tests.files.web_server import Handler, WebServer, dripping, without_length


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
    """The queue of each server is full, so connecting to it could wait for all of the time."""
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
    content = f"{HEADER}\n{GOOD}\n".encode()

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
