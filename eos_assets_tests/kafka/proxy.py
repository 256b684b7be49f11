"""A TCP proxy between clients and one broker that knows the framing of Kafka's protocol."""

import asyncio
import struct
import threading
from collections.abc import Callable
from types import TracebackType

from eos_assets.platform.loopback import LOOPBACK

FETCH = 1
#: API key and the frame of a response without its size → the frame to send instead.
Change = Callable[[int, bytes], bytes]


class Proxy:
    """Forwards requests as they are, and responses as `change` returns them. Clients never learn the address of the
    broker: in every response its port is replaced by that of the proxy."""

    def __init__(self, bootstrap_servers: str, change: Change) -> None:
        self._port = int(bootstrap_servers.rpartition(":")[2])
        self._change = change
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxy")
        self.address = ""

    def __enter__(self) -> "Proxy":
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, LOOPBACK, 0), self._loop)
        self._server = started.result()
        self._own_port: int = self._server.sockets[0].getsockname()[1]
        self.address = f"{LOOPBACK}:{self._own_port}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, to_broker = await asyncio.open_connection(LOOPBACK, self._port)
        keys: dict[int, int] = {}  # correlation id → API key
        try:
            await asyncio.gather(self._requests(reader, to_broker, keys), self._responses(upstream, writer, keys))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one side has closed the connection
        finally:
            writer.close()
            to_broker.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]) -> None:
        while True:
            frame = await read_frame(reader)
            key, _, correlation = struct.unpack_from(">hhi", frame)
            keys[correlation] = key
            await write_frame(writer, frame)

    async def _responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]
    ) -> None:
        host = LOOPBACK.encode()
        broker, own = (host + struct.pack(">i", port) for port in (self._port, self._own_port))
        while True:
            frame = await read_frame(reader)
            (correlation,) = struct.unpack_from(">i", frame)
            await write_frame(writer, self._change(keys.pop(correlation), frame.replace(broker, own)))


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()
