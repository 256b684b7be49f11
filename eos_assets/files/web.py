"""An `http:` or `https:` URL in, the body out. Only declared hosts, and only at the very
address that was checked: a name that leads elsewhere a moment later leads nowhere."""

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
from eos_assets.files.broken import BrokenFile, Refused, Unreachable, shown
from eos_assets.files.limits import Meter
from eos_assets.files.reference import check_url
from eos_assets.files.source import Source

MAX_REDIRECTS = 5
#: How long a server may say nothing.
SILENCE_SECONDS = 30.0
HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "eos-assets", "Connection": "close"}
MOVED = {301, 302, 303, 307, 308}
BUSY = {408, 425, 429, 500, 502, 503, 504}

#: As `socket.getaddrinfo`.
Resolve = Callable[..., list[tuple[Any, ...]]]


class PinnedConnection(http.client.HTTPConnection):
    """A connection to the first of these addresses that answers, whatever the name says by now; TLS still insists on
    the name."""

    def __init__(
        self, host: str, port: int, addresses: list[str], context: ssl.SSLContext | None, meter: Meter
    ) -> None:
        super().__init__(host, port)
        self.default_port = DEFAULT_PORTS["https" if context else "http"]  # else it would stand in the Host header
        self.addresses = addresses
        self.context = context
        self.meter = meter
        self.wire: socket.socket | None = None

    def connect(self) -> None:
        for address in self.addresses:
            try:
                self.sock = self.wire = socket.create_connection((address, self.port), self.patience())
                break
            except OSError:
                if address == self.addresses[-1]:
                    raise
        if self.context is not None:
            self.sock.settimeout(self.patience())  # of the handshake as a whole
            self.sock = self.wire = self.context.wrap_socket(self.sock, server_hostname=self.host)
        self.meter.remaining()

    def patience(self) -> float:
        """Seconds for the next step: what is left for the file, and no longer than a server may be silent."""
        return min(SILENCE_SECONDS, self.meter.remaining())

    def end(self) -> None:
        """Called from another thread when the time is over: whatever waits for the server wakes up. It ends the plain
        socket, below TLS: a farewell to a server that is silent would wait, too."""
        if self.wire is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.wire, socket.SHUT_RDWR)


@contextmanager
def open_web(url: str, access: Access, meter: Meter, resolve: Resolve = socket.getaddrinfo) -> Iterator[Source]:
    for _ in range(MAX_REDIRECTS + 1):
        connection = connected(url, access, meter, resolve)
        timer = threading.Timer(meter.remaining(), connection.end)
        timer.daemon = True
        timer.start()
        try:
            with told(meter):
                response = asked(connection, url)
            with response:
                if response.status not in MOVED:
                    yield body(response, meter)
                    return
                url = redirected(url, response.headers.get("Location"))
        finally:
            timer.cancel()
            connection.close()
    raise Refused(f"more than {MAX_REDIRECTS} redirects")


def connected(url: str, access: Access, meter: Meter, resolve: Resolve) -> PinnedConnection:
    """A connection that is not made yet, to an address that may be asked."""
    check_url(url)
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]
    if not host:
        raise Refused("the URL names no host")
    access.check_host(host, port, parts.scheme)
    try:
        found = resolve(host, port, type=socket.SOCK_STREAM)
    except OSError as failure:
        raise Unreachable(f"{host} cannot be resolved: {failure.strerror or failure}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:  # all of them: a name that leads inside as well is not to be trusted
        access.check_address(host, address, port)
    context = ssl.create_default_context() if parts.scheme == "https" else None
    return PinnedConnection(host, port, addresses, context, meter)


def asked(connection: PinnedConnection, url: str) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), headers=HEADERS)
    return connection.getresponse()


def redirected(url: str, location: str | None) -> str:
    if not location:
        raise BrokenFile("a redirect to nowhere")
    target = urljoin(url, location)
    before, after = urlsplit(url).scheme, urlsplit(target).scheme
    if after not in DEFAULT_PORTS:
        raise Refused(f"a redirect to {after or 'no'}: is not followed")
    if before == "https" and after == "http":
        raise Refused("a redirect from https to http is not followed")
    return target


def body(response: http.client.HTTPResponse, meter: Meter) -> Source:
    status = response.status
    if status in (404, 410):
        raise BrokenFile(f"not found (HTTP {status})")
    if status != 200:
        raise (Unreachable if status in BUSY else BrokenFile)(f"the server answers HTTP {status} {response.reason}")
    expected = length_of(response)
    if expected is not None:
        meter.announce(expected)
    received = 0

    def read(size: int) -> bytes:
        nonlocal received
        with told(meter):
            data = response.read1(size)
        received += len(data)
        if not data and expected is not None and received < expected:
            raise Unreachable(f"truncated: {received} of {expected} bytes came")
        return data

    return Source(read, sure_end=expected is not None or response.chunked)


def length_of(response: http.client.HTTPResponse) -> int | None:
    """How long the body will be, if the server tells; chunks tell their end themselves."""
    told = list(dict.fromkeys(response.headers.get_all("Content-Length", [])))
    if len(told) > 1 or not all(length.isascii() and length.isdecimal() for length in told):
        raise BrokenFile(f"the server tells a length that is none: {shown(', '.join(told))}")
    return int(told[0]) if told and not response.chunked else None


@contextmanager
def told(meter: Meter) -> Iterator[None]:
    """What a server does wrong, as a reason. An end that we made ourselves is the limit of time."""
    try:
        yield
    except http.client.IncompleteRead:
        meter.remaining()
        raise Unreachable("truncated: the server ended in the middle") from None
    except ssl.SSLCertVerificationError as failure:
        raise BrokenFile(f"the server's certificate is not trusted: {failure.verify_message}") from None
    except TimeoutError:
        meter.remaining()
        raise Unreachable(f"the server says nothing for {SILENCE_SECONDS:g} s") from None
    except (OSError, http.client.HTTPException) as failure:
        meter.remaining()
        why = getattr(failure, "strerror", None) or type(failure).__name__
        raise Unreachable(f"the server cannot be reached: {why}") from None
