"""Pieces in, the same pieces out, and None whenever none came for a while: whoever waits may use the time."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

#: So much is read ahead: what comes while a transaction is opened or committed.
AHEAD_BYTES = 16 << 20


class Arrivals:
    """Reads pieces in a thread of its own, some ahead, so that Spark need not wait for us. The thread ends with the
    pieces, or with its process."""

    def __init__(self, pieces: Iterable[pa.RecordBatch], seconds: float) -> None:
        self.pieces = pieces
        self.seconds = seconds
        self._arrived: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True, name="eos-arrivals").start()

    def _read(self) -> None:
        failure: BaseException | None = None
        try:
            for piece in self.pieces:
                self._take_in(piece)
        except BaseException as raised:
            failure = raised
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify()

    def _take_in(self, piece: pa.RecordBatch) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._arrived or self._bytes + piece.nbytes <= AHEAD_BYTES)
            self._arrived.append(piece)
            self._bytes += piece.nbytes
            self._changed.notify()

    def __iter__(self) -> Iterator[pa.RecordBatch | None]:
        """All pieces that arrived are given out before what the reading of the next one raised is raised."""
        while True:
            with self._changed:
                came = self._changed.wait_for(lambda: self._arrived or self._ended, self.seconds)
                piece = self._arrived.popleft() if self._arrived else None
                if piece is not None:
                    self._bytes -= piece.nbytes
                    self._changed.notify()
                elif came:
                    break
            yield piece
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def drain(self) -> None:
        """Reads the rest and throws it away, so that nobody else reads from the same source meanwhile."""
        for _ in self:
            continue
