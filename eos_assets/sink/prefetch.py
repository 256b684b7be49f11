"""Reads Arrow batches from Spark ahead of the writer, while a transaction opens or commits."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

#: The most bytes that are read ahead.
AHEAD_BYTES = 16 << 20


class Prefetch:
    """Reads Arrow batches in a thread of its own. The thread ends with the batches, or with its process."""

    def __init__(self, batches: Iterable[pa.RecordBatch], seconds: float) -> None:
        self._batches = batches
        self._seconds = seconds
        self._ready: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True, name="eos-prefetch").start()

    def _read(self) -> None:
        failure: BaseException | None = None
        try:
            for batch in self._batches:
                self._append(batch)
        except BaseException as raised:
            failure = raised
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify()

    def _append(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._ready or self._bytes + batch.nbytes <= AHEAD_BYTES)
            self._ready.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify()

    def __iter__(self) -> Iterator[pa.RecordBatch | None]:
        """The batches in order, and None whenever none arrived for `seconds`. What reading raises is raised here, after
        all batches that were read before it."""
        while True:
            with self._changed:
                in_time = self._changed.wait_for(lambda: self._ready or self._ended, self._seconds)
                batch = self._ready.popleft() if self._ready else None
                if batch is not None:
                    self._bytes -= batch.nbytes
                    self._changed.notify()
                elif in_time:
                    break
            yield batch
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def drain(self) -> None:
        """Read and discard the rest, so that this thread is not still reading when Spark uses the input again."""
        for _ in self:
            continue
