"""Files of `http:` and `https:` URLs, from declared hosts only.

The connection is made to the address that was checked, so a name that resolves to another address a moment later does
no harm. `docs/decisions/0016-standard-library-for-files.md` explains why this is not urllib3.
"""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

from eos_assets.files.access import DEFAULT_PORTS, Access
from eos_assets.files.download import Download
from eos_assets.files.errors import AccessDenied, FileError, StoreUnavailable, quote
from eos_assets.files.limits import Meter
from eos_assets.files.reference import check_url

MAX_REDIRECTS = 5
#: The longest time that a server may send nothing.
SILENCE_SECONDS = 30.0
HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "eos-assets", "Connection": "close"}
REDIRECTS = {301, 302, 303, 307, 308}
NOT_FOUND = {404, 410}
#: Another attempt may succeed after these.
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}

#: The signature of `socket.getaddrinfo`.
Resolve = Callable[..., list[tuple[Any, ...]]]


class PinnedConnection(http.client.HTTPConnection):
    """A connection to the first of the checked addresses that accepts it. TLS still verifies the name."""

    def __init__(
        self, host: str, port: int, addresses: list[str], context: ssl.SSLContext | None, meter: Meter
    ) -> None:
        super().__init__(host, port)
        self.default_port = DEFAULT_PORTS["https" if context else "http"]  # it is left out of the Host header
        self.addresses = addresses
        self.context = context
        self.meter = meter
        #: Kept for `shut_down`: `http.client` forgets its own `sock` once the response has taken it over.
        self.socket: socket.socket | None = None

    def connect(self) -> None:
        self.sock = self.socket = self.connect_to_first()
        if self.context is not None:
            self.sock.settimeout(self.timeout_of_step())  # for the whole handshake
            self.sock = self.socket = self.context.wrap_socket(self.sock, server_hostname=self.host)
        self.meter.remaining()

    def connect_to_first(self) -> socket.socket:
        *others, last = self.addresses
        for address in others:
            with contextlib.suppress(OSError):
                return socket.create_connection((address, self.port), self.timeout_of_step())
        return socket.create_connection((last, self.port), self.timeout_of_step())

    def timeout_of_step(self) -> float:
        """The seconds for the next step: the rest of the time for the file, at most the longest silence."""
        return min(SILENCE_SECONDS, self.meter.remaining())

    def shut_down(self) -> None:
        """End every call that waits for the server. Another thread calls this at the time limit.

        It shuts down the socket below TLS, because closing TLS would wait for the silent server, too.
        """
        if self.socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


@contextmanager
def open_web(url: str, access: Access, meter: Meter, resolve: Resolve = socket.getaddrinfo) -> Iterator[Download]:
    for _ in range(MAX_REDIRECTS + 1):
        with open_connection(url, access, meter, resolve) as connection:
            with translate_errors(meter):
                response = send_request(connection, url)
            with response:
                if response.status not in REDIRECTS:
                    yield download_of(response, meter)
                    return
                url = redirect_target(url, response.headers.get("Location"))
    raise AccessDenied(f"more than {MAX_REDIRECTS} redirects")


@contextmanager
def open_connection(url: str, access: Access, meter: Meter, resolve: Resolve) -> Iterator[PinnedConnection]:
    """A connection that another thread shuts down at the time limit. It connects with the first request."""
    connection = pinned_connection(url, access, meter, resolve)
    timer = threading.Timer(meter.remaining(), connection.shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield connection
    finally:
        timer.cancel()
        connection.close()


def pinned_connection(url: str, access: Access, meter: Meter, resolve: Resolve) -> PinnedConnection:
    """Check the host and all its addresses, and pin them: a name with one private address is denied."""
    check_url(url)
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]
    if not host:
        raise AccessDenied("the URL has no host")
    access.check_host(host, port, parts.scheme)
    try:
        entries = resolve(host, port, type=socket.SOCK_STREAM)
    except OSError as failure:
        raise StoreUnavailable(f"{host} cannot be resolved: {failure.strerror or failure}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    for address in addresses:
        access.check_address(host, address, port)
    context = ssl.create_default_context() if parts.scheme == "https" else None
    return PinnedConnection(host, port, addresses, context, meter)


def send_request(connection: PinnedConnection, url: str) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), headers=HEADERS)
    return connection.getresponse()


def redirect_target(url: str, location: str | None) -> str:
    if not location:
        raise FileError("a redirect without a target")
    target = urljoin(url, location)
    before, after = urlsplit(url).scheme, urlsplit(target).scheme
    if after not in DEFAULT_PORTS:
        raise AccessDenied(f"a redirect to {after or 'no scheme'}: is not followed")
    if before == "https" and after == "http":
        raise AccessDenied("a redirect from https to http is not followed")
    return target


def download_of(response: http.client.HTTPResponse, meter: Meter) -> Download:
    """Check the status and the length, and return the body."""
    status = response.status
    if status in NOT_FOUND:
        raise FileError(f"not found (HTTP {status})")
    if status != 200:
        error = StoreUnavailable if status in TEMPORARY else FileError
        raise error(f"the server answers HTTP {status} {response.reason}")
    expected = content_length(response)
    if expected is not None:
        meter.check_size(expected)
    received = 0

    def read(size: int) -> bytes:
        nonlocal received
        with translate_errors(meter):
            data = response.read1(size)
        received += len(data)
        if not data and expected is not None and received < expected:
            raise StoreUnavailable(f"truncated: {received} of {expected} bytes received")
        return data

    return Download(read, meter, detects_truncation=expected is not None or response.chunked)


def content_length(response: http.client.HTTPResponse) -> int | None:
    """The length of the body, if the server declares it. Chunked bodies have an end of their own."""
    values = list(dict.fromkeys(response.headers.get_all("Content-Length", [])))
    if len(values) > 1 or not all(value.isascii() and value.isdecimal() for value in values):
        raise FileError(f"the server's Content-Length is not valid: {quote(', '.join(values))}")
    return int(values[0]) if values and not response.chunked else None


@contextmanager
def translate_errors(meter: Meter) -> Iterator[None]:
    """Turn an error of the connection into its reason. After a shutdown at the time limit, the limit is the reason."""
    try:
        yield
    except ssl.SSLCertVerificationError as failure:
        raise FileError(f"the server's certificate is not trusted: {failure.verify_message}") from None
    except (OSError, http.client.HTTPException) as failure:
        meter.remaining()
        raise StoreUnavailable(describe_failure(failure)) from None


def describe_failure(failure: OSError | http.client.HTTPException) -> str:
    if isinstance(failure, http.client.IncompleteRead):
        return "truncated: the server closed the connection before the end"
    if isinstance(failure, TimeoutError):
        return f"the server sent nothing for {SILENCE_SECONDS:g} s"
    cause = getattr(failure, "strerror", None) or type(failure).__name__
    return f"the server cannot be reached: {cause}"
