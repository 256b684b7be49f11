"""A proxy that does not work does not affect servers on this machine."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc
import pytest

from eos_assets.local import probe, spark_server
from eos_assets.platform.loopback import LOOPBACK, NO_PROXY_VARIABLES, bypass_proxy


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in NO_PROXY_VARIABLES:
        monkeypatch.setenv(name, "")


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    with HTTPServer((LOOPBACK, 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{LOOPBACK}:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_probe_bypasses_the_proxy(proxied: None, page: str) -> None:
    assert probe.serves(page)


def test_a_grpc_probe_bypasses_the_proxy(proxied: None) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    server.start()
    try:
        assert spark_server.serves(port)
    finally:
        server.stop(0)


def test_this_machine_is_added_to_the_hosts_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "intranet, 127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "intranet,other")
    for _ in range(2):
        bypass_proxy()
        assert {os.environ[name] for name in NO_PROXY_VARIABLES} == {"intranet,127.0.0.1,other,localhost"}


def test_all_hosts_without_a_proxy_stay_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NO_PROXY_VARIABLES:
        monkeypatch.setenv(name, "*")
    bypass_proxy()
    assert {os.environ[name] for name in NO_PROXY_VARIABLES} == {"*"}
