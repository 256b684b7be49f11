"""A real HTTP server on this machine that serves files, and misbehaves where a test wants it."""

import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

#: A self-signed certificate for `localhost`, with its key.
CERTIFICATE = Path(__file__).parent / "localhost.pem"
Answer = Callable[["Handler"], None]


@dataclass
class WebServer:
    """The server, its files (path → bytes, or a function that answers) and the requests that it got."""

    address: str
    port: int = 0
    files: dict[str, bytes | Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    #: The bytes of bodies that the server has sent.
    sent: int = 0

    def url(self, path: str) -> str:
        return f"http://{self.address}:{self.port}{path}"

    @property
    def host(self) -> str:
        return f"{self.address}:{self.port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: WebServer

    def do_GET(self) -> None:
        self.web.requests.append(self.path)
        answer = self.web.files.get(self.path.partition("?")[0])
        self.close_connection = True
        try:
            if answer is None:
                self.send_error(404)
            elif isinstance(answer, bytes):
                self.begin(200, {"Content-Length": str(len(answer))})
                self.write(answer)
            else:
                answer(self)
        except OSError:
            return  # the client closed the connection

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.web.sent += len(data)

    def log_message(self, *_: object) -> None:
        return


def redirect(to: str) -> Answer:
    return lambda handler: handler.begin(302, {"Location": to, "Content-Length": "0"})


def truncated(data: bytes, declared: int) -> Answer:
    def answer(handler: Handler) -> None:
        handler.begin(200, {"Content-Length": str(declared)})
        handler.write(data)

    return answer


def without_length(data: bytes, **headers: str) -> Answer:
    """A body that ends with the connection."""

    def answer(handler: Handler) -> None:
        handler.begin(200, headers)
        handler.write(data)

    return answer


def in_chunks(data: bytes) -> Answer:
    return without_length(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data), **{"Transfer-Encoding": "chunked"})


def endless(piece: bytes) -> Answer:
    def answer(handler: Handler) -> None:
        handler.begin(200, {})
        while True:
            handler.write(piece)

    return answer


def dripping(piece: bytes, seconds: float) -> Answer:
    """A piece now and then, so that the server is never silent for long."""

    def answer(handler: Handler) -> None:
        handler.begin(200, {})
        while True:
            handler.write(piece)
            threading.Event().wait(seconds)

    return answer


@contextmanager
def serving(address: str = "127.0.0.1", port: int = 0, *, tls: bool = False) -> Iterator[WebServer]:
    web = WebServer(address)
    handler = type("Bound", (Handler,), {"web": web})
    server = http.server.ThreadingHTTPServer((address, port), handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
