"""Hostile references (F24): nothing is fetched from a place that is not declared, however the place is written."""

import io
import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from eos_assets.errors import EosError
from eos_assets.files import spool
from eos_assets.files.access import Access, parse_host
from eos_assets.files.errors import AccessDenied, StoreUnavailable
from eos_assets.files.limits import Meter
from eos_assets.files.task import read_file
from eos_assets.files.web import open_web
from eos_assets.platform.settings import Settings
from eos_assets_tests.files.reading import read, reason
from eos_assets_tests.files.web_server import CERTIFICATE, WebServer, redirect, serving

CSV = b"transaction_id,account,amount,currency,booked_at,text\nT1,A1,1.00,EUR,2026-05-04T09:30:00Z,x\n"


@pytest.mark.parametrize("scheme", ["ftp", "data", "gopher", "s3", "jar", "local", "javascript", "dict"])
def test_other_schemes_are_denied(access: Access, scheme: str) -> None:
    assert "not a declared store" in reason(f"{scheme}://example.com/a.csv", access)


def test_an_undeclared_host_is_denied_and_gets_no_request(access: Access, web: WebServer) -> None:
    assert "not declared (EOS_FILES_HOSTS)" in reason("http://example.com/a.csv", access)
    with serving("127.0.0.1") as other:
        assert f"port {other.port} is not declared" in reason(other.url("/a.csv"), access)
    without_hosts = replace(access, hosts=())
    assert "not declared" in reason(web.url("/a.csv"), without_hosts)
    assert (other.requests, web.requests) == ([], [])


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("10.0.0.1", "not public"),
        ("0.0.0.0", "not public"),
        ("100.64.0.1", "not public"),
        ("224.0.0.1", "not public"),
        ("::1", "loopback"),
        ("fe80::1%eth0", "link-local"),
        ("fd00::1", "not public"),
        ("fec0::1", "not public"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
    ],
)
def test_a_declared_name_that_resolves_to_a_private_address_is_denied(address: str, kind: str) -> None:
    declared = Access(hosts=(parse_host("files.example.com"),))
    with pytest.raises(AccessDenied, match=kind):
        declared.check_address("files.example.com", address, 80)
    assert str(declared.check_address("files.example.com", "93.184.216.34", 80)) == "93.184.216.34"


def test_a_private_address_is_allowed_only_if_it_is_declared_itself() -> None:
    declared = Access(hosts=tuple(map(parse_host, ("files.intern", "10.1.0.0/16", "[fd00::/8]:8080"))))
    assert declared.check_address("files.intern", "10.1.2.3", 80)
    assert declared.check_address("files.intern", "fd12::1", 8080)
    with pytest.raises(AccessDenied):
        declared.check_address("files.intern", "10.2.0.1", 80)
    with pytest.raises(AccessDenied):
        declared.check_address("files.intern", "fd12::1", 80)
    declared.check_host("10.1.2.3", 80, "http")
    declared.check_host("fd12::1", 8080, "http")
    with pytest.raises(AccessDenied):
        declared.check_host("10.1.2.3", 8080, "http")


def test_localhost_is_declared_by_its_name(access: Access, web: WebServer) -> None:
    web.files["/a.csv"] = CSV
    named = replace(access, hosts=(parse_host(f"localhost:{web.port}"),))
    assert len(read(f"http://localhost:{web.port}/a.csv", named)) == 1


@pytest.mark.parametrize("text", ["http://a", "a b", "a:99999", "[::1", "a:b", "10.0.0.0/99"])
def test_an_invalid_host_is_rejected_with_its_setting(text: str) -> None:
    with pytest.raises(EosError, match="EOS_FILES_HOSTS"):
        Settings.load({"EOS_FILES_HOSTS": f"example.com,{text}"})


def test_limits_and_stores_are_declared_in_the_environment() -> None:
    environ = {"EOS_FILES_MAX_BYTES": "1000", "EOS_FILES_STORES": "s3://bucket/in", "EOS_FILES_ROOT": "/in"}
    loaded = Settings.load(environ).files
    assert (loaded.limits.max_bytes, loaded.stores, loaded.root) == (1000, ("s3://bucket/in/",), Path("/in"))
    assert Settings.load({}).files.empty
    with pytest.raises(EosError, match="EOS_FILES_MAX_BYTES=many is not a limit"):
        Settings.load({"EOS_FILES_MAX_BYTES": "many"})
    with pytest.raises(EosError, match="is not a store"):
        Settings.load({"EOS_FILES_STORES": "file:///"})


def test_a_redirect_stays_within_what_is_declared(access: Access, web: WebServer) -> None:
    web.files["/a.csv"] = CSV
    web.files["/moved.csv"] = redirect("/a.csv")
    assert len(read(web.url("/moved.csv"), access)) == 1
    with serving("127.0.0.2") as inside:
        inside.files["/a.csv"] = CSV
        hostile = {
            inside.url("/a.csv"): "is not declared",
            "http://169.254.169.254/latest/meta-data": "is not declared",
            "http://localhost:22/": "is not declared",
            "file:///etc/passwd": "a redirect to file: is not followed",
            "//127.0.0.2/a.csv": "is not declared",
            "http://user:pw@127.0.0.1/": "contains credentials",
            "": "a redirect without a target",
        }
        for target, expected in hostile.items():
            web.files["/out.csv"] = redirect(target)
            assert expected in reason(web.url("/out.csv"), access), target
        assert inside.requests == []
    web.files["/round.csv"] = redirect("/round.csv")
    assert "more than 5 redirects" in reason(web.url("/round.csv"), access)


def test_the_connection_is_made_to_the_address_that_was_checked(access: Access) -> None:
    """DNS rebinding: the name resolves to an allowed address at the check, and to a private one a moment later."""
    with serving("127.0.0.2") as allowed, serving("127.0.0.1", allowed.port) as inside:
        allowed.files["/a.csv"], inside.files["/a.csv"] = b"allowed", b"secret"
        answers = iter(["127.0.0.2", "127.0.0.1", "127.0.0.1"])

        def resolve(name: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

        rebound = Access(hosts=(parse_host(f"rebound.example:{allowed.port}"), parse_host("127.0.0.2")))
        url = f"http://rebound.example:{allowed.port}/a.csv"
        with open_web(url, rebound, Meter(rebound.limits), resolve) as body:
            assert body.read(100) == b"allowed"
        with pytest.raises(AccessDenied, match="loopback"), open_web(url, rebound, Meter(rebound.limits), resolve):
            pass
        assert inside.requests == []


def test_https_requires_a_trusted_certificate_for_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tls=True) as web, serving() as plain:
        web.files["/a.csv"] = plain.files["/a.csv"] = CSV
        web.files["/down.csv"] = redirect(plain.url("/a.csv"))
        url = f"https://localhost:{web.port}"
        declared = Access(hosts=(parse_host(f"localhost:{web.port}"), parse_host("127.0.0.1:*")))
        assert "certificate is not trusted" in reason(f"{url}/a.csv", declared)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert len(read(f"{url}/a.csv", declared)) == 1
        assert "certificate is not trusted" in reason(f"https://127.0.0.1:{web.port}/a.csv", declared)
        assert "from https to http" in reason(f"{url}/down.csv", declared)


def test_a_file_outside_the_declared_folder_is_denied(access: Access, tmp_path: Path) -> None:
    root = access.root
    assert root is not None
    (root / "below").mkdir()
    (root / "below" / "a.csv").write_bytes(CSV)
    outside = tmp_path / "outside.csv"
    outside.write_bytes(CSV)
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "a.csv").write_bytes(CSV)
    (root / "link.csv").symlink_to(outside)
    (root / "folder").symlink_to(tmp_path)
    (root / "inside.csv").symlink_to(root / "below" / "a.csv")
    assert len(read(f"file://{root}/below/a.csv", access)) == 1
    assert len(read(f"file:{root}/below/../below/a.csv", access)) == 1
    assert len(read(f"file://localhost{root}/inside.csv", access)) == 1, "a link that stays inside"
    for path in (
        f"{root}/../outside.csv",
        f"{root}/%2e%2e/outside.csv",
        f"{root}/link.csv",
        f"{root}/folder/outside.csv",
        f"{root}2/a.csv",
        "/etc/passwd.csv",
    ):
        assert "outside the declared folder" in reason(f"file://{path}", access), path
    assert "another machine" in reason(f"file://example.com{root}/below/a.csv", access)
    assert "absolute path" in reason("file:below/a.csv", access)
    assert "no folder is declared" in reason(f"file://{root}/below/a.csv", replace(access, root=None))


def test_only_a_regular_file_is_read(access: Access) -> None:
    root = access.root
    assert root is not None
    (root / "folder.csv").mkdir()
    os.mkfifo(root / "pipe.csv")
    (root / "loop.csv").symlink_to(root / "loop.csv")
    assert "not a regular file" in reason(f"file://{root}/folder.csv", access)
    assert "not a regular file" in reason(f"file://{root}/pipe.csv", access)
    assert "not found" in reason(f"file://{root}/loop.csv", access)
    assert "not found" in reason(f"file://{root}/missing.csv", access)
    assert "not found" in reason(f"file://{root}/missing/a.csv", access)


def test_other_stores_are_read_with_fsspec_below_what_is_declared(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec.filesystem("memory").pipe("/in/a.csv", CSV)
    fsspec.filesystem("memory").pipe("/other/a.csv", CSV)
    declared = replace(access, stores=("memory://in/", "nosuch://x/"))
    assert len(read("memory://in/a.csv", declared)) == 1
    assert "not found" in reason("memory://in/missing.csv", declared)
    assert "not a declared store" in reason("memory://other/a.csv", declared)
    for up in ("..", "%2e%2e", "x?/..", "x#/..", "?..", "x%3F/%2E%2E"):
        assert "contains `..`" in reason(f'{{"url": "memory://in/{up}/other/a.csv", "format": "csv"}}', declared), up
    assert "contains `..`" in reason("memory://in/a.csv::memory://other/a.csv", declared)
    assert "no installed driver" in reason("nosuch://x/a.csv", declared)
    small = replace(declared, limits=replace(declared.limits, max_bytes=10))
    assert "too large" in reason("memory://in/a.csv", small)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "fsspec is not installed" in reason("memory://in/a.csv", declared)


class FailingStore(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A driver whose chosen call fails or never answers."""

    protocol = "failing"
    cachable = False
    failing = ""
    hangs = False
    never = threading.Event()

    def call(self, name: str) -> None:
        if name == FailingStore.failing:
            if FailingStore.hangs:
                FailingStore.never.wait()
            raise RuntimeError("no credentials for hunter2")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.call("connect")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        self.call("info")
        return {"name": path, "size": len(CSV), "type": "file"}

    def open(self, path: str, *_: Any, **__: Any) -> io.BytesIO:
        self.call("open")
        return FailingFile(CSV)


class FailingFile(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        FailingStore().call("read")
        return super().read(size)


@pytest.fixture
def failing_store(access: Access, monkeypatch: pytest.MonkeyPatch) -> Iterator[Access]:
    fsspec.register_implementation("failing", FailingStore, clobber=True)
    monkeypatch.setattr(FailingStore, "never", threading.Event())
    yield replace(access, stores=("failing://b/",), limits=replace(access.limits, max_seconds=1))
    FailingStore.never.set()


@pytest.mark.parametrize("call", ["connect", "info", "open", "read"])
def test_any_error_of_a_driver_may_be_retried(
    failing_store: Access, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    assert len(read("failing://b/a.csv", failing_store)) == 1
    monkeypatch.setattr(FailingStore, "failing", call)
    monkeypatch.setattr(spool, "PAUSES", ())
    with pytest.raises(StoreUnavailable, match=r"^the store cannot be reached: RuntimeError$"):
        read("failing://b/a.csv", failing_store)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("call", ["connect", "info", "open", "read"])
def test_a_driver_that_never_answers_is_abandoned_at_the_time_limit(
    failing_store: Access, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(FailingStore, "failing", call)
    monkeypatch.setattr(FailingStore, "hangs", True)
    assert reason("failing://b/a.csv", failing_store) == "the file takes longer than 1 s (EOS_FILES_MAX_SECONDS)"


@pytest.mark.parametrize(
    "reference",
    [
        "http://HOST/über.csv",
        '{"url": "file:///ROOT/\\ud800.csv"}',
        '{"url": "http://\\ud800\\u2100/a.csv"}',
        "http://HOST/moved",
    ],
    ids=["path", "surrogate", "surrogate host", "redirect"],
)
def test_a_reference_that_no_library_can_parse_is_a_dead_letter(access: Access, web: WebServer, reference: str) -> None:
    web.files["/moved"] = redirect("http://[")
    value = reference.replace("HOST", f"127.0.0.1:{web.port}").replace("/ROOT", str(access.root)).encode()
    (batch,) = read_file(value, {"partition": 0, "offset": 0, "ordinal": 0}, access)
    assert batch["error"][0].as_py()
