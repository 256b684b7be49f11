"""Pieces in, the same pieces out, and None whenever none came for a while: whoever waits may use the time."""

import queue
import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa


class Arrivals:
    """Reads pieces in a thread of its own, one ahead. The thread ends with the pieces, or with its process."""

    def __init__(self, pieces: Iterable[pa.RecordBatch], seconds: float) -> None:
        self.pieces = pieces
        self.seconds = seconds
        self._arrived: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(maxsize=1)
        self._ended = False
        threading.Thread(target=self._read, daemon=True, name="eos-arrivals").start()

    def _read(self) -> None:
        end: BaseException | None = None
        try:
            for piece in self.pieces:
                self._arrived.put(piece)
        except BaseException as failure:
            end = failure
        self._arrived.put(end)

    def __iter__(self) -> Iterator[pa.RecordBatch | None]:
        while not self._ended:
            try:
                arrived = self._arrived.get(timeout=self.seconds)
            except queue.Empty:
                yield None
                continue
            if arrived is None or isinstance(arrived, BaseException):
                self._ended = True
                if arrived is not None:
                    raise arrived
            else:
                yield arrived

    def drain(self) -> None:
        """Reads the rest and throws it away, so that nobody else reads from the same source meanwhile."""
        for _ in self:
            continue
