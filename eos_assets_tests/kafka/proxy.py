"""A TCP proxy between clients and one broker that knows the framing of Kafka's protocol.

It can damage responses, and lose or delay requests and replies by their API key.
"""

import asyncio
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Literal

from eos_assets.platform.loopback import LOOPBACK


class Api(IntEnum):
    """The numbers of Kafka's requests."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


#: How often a held message looks whether it is released.
HELD_SECONDS = 0.01


@dataclass
class Fault:
    """What happens to the first requests of one kind, or to their replies.

    A lost one ends its connection, as a broken network does. A delayed or held one, and what follows it on its
    connection, waits.
    """

    api: int
    what: Literal["request", "reply"]
    seconds: float | None = None
    """How long it is delayed; None: it is lost, or held."""
    released: threading.Event | None = None
    """If given, it is held until this is set."""
    times: int = 1
    struck: int = 0
    passed: bool = False
    """Whether a delayed or held one has been forwarded."""

    async def strike(self) -> None:
        self.struck += 1
        if self.released is not None:
            while not self.released.is_set():
                await asyncio.sleep(HELD_SECONDS)
        elif self.seconds is None:
            raise ConnectionResetError
        else:
            await asyncio.sleep(self.seconds)


#: API key and the frame of a response without its size → the frame to send instead.
Change = Callable[[int, bytes], bytes]


@dataclass
class Proxy:
    """Forwards what no fault concerns. Clients never learn the address of the broker: in every response its port is
    replaced by that of the proxy."""

    bootstrap_servers: str
    faults: list[Fault] = field(default_factory=list)
    change: Change = lambda _, frame: frame
    address: str = ""

    def __enter__(self) -> "Proxy":
        self._broker = int(self.bootstrap_servers.rpartition(":")[2])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxy")
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, LOOPBACK, 0), self._loop)
        self._server = started.result()
        self._own: int = self._server.sockets[0].getsockname()[1]
        self.address = f"{LOOPBACK}:{self._own}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, to_broker = await asyncio.open_connection(LOOPBACK, self._broker)
        keys: dict[int, int] = {}  # correlation id → API key
        ways = [
            asyncio.ensure_future(self._requests(reader, to_broker, keys)),
            asyncio.ensure_future(self._replies(upstream, writer, keys)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)  # one side has ended, or a fault struck
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()
            to_broker.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]) -> None:
        while True:
            frame = await read_frame(reader)
            api, _, correlation = struct.unpack_from(">hhi", frame)
            keys[correlation] = api
            await self._forward(api, "request", frame, writer)

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]) -> None:
        host = LOOPBACK.encode()
        broker, own = (host + struct.pack(">i", port) for port in (self._broker, self._own))
        while True:
            frame = await read_frame(reader)
            (correlation,) = struct.unpack_from(">i", frame)
            api = keys.pop(correlation)
            await self._forward(api, "reply", self.change(api, frame.replace(broker, own)), writer)

    async def _forward(self, api: int, what: str, frame: bytes, writer: asyncio.StreamWriter) -> None:
        due = [f for f in self.faults if f.api == api and f.what == what and f.struck < f.times]
        for fault in due:
            await fault.strike()
        await write_frame(writer, frame)
        for fault in due:
            fault.passed = True


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()
