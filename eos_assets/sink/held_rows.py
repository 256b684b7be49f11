"""The rows of one source record that may not be complete yet."""

import tempfile
from collections.abc import Iterator

import pyarrow as pa

#: More than this is held on disk, so that memory stays flat however many outputs a record has.
ROWS = 50_000
BYTES = 32 << 20


class HeldRows:
    """The outputs of a record are produced together, and only once all of them have arrived: a transaction that waits
    in the middle of them could neither be committed nor outlive its timeout."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._bytes = self._rows = 0
        self._in_memory: list[pa.RecordBatch] = []
        self._on_disk: SpillFile | None = None

    @property
    def spilled(self) -> bool:
        return self._on_disk is not None

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._on_disk is not None:
            self._on_disk.write(rows)
            return
        self._in_memory.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows > ROWS or self._bytes > BYTES:
            self._on_disk = SpillFile(rows.schema)
            for batch in self._in_memory:
                self._on_disk.write(batch)
            self._in_memory = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in order. They can be read once."""
        return iter(self._in_memory) if self._on_disk is None else self._on_disk.read()

    def close(self) -> None:
        if self._on_disk is not None:
            self._on_disk.close()


class SpillFile:
    """Arrow batches in a temporary file that disappears with the process."""

    def __init__(self, schema: pa.Schema) -> None:
        self._file = tempfile.TemporaryFile(prefix="eos-held-")  # noqa: SIM115 - closed by `close`
        self._writer = pa.ipc.new_stream(self._file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)

    def read(self) -> Iterator[pa.RecordBatch]:
        self._writer.close()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)
        self.close()

    def close(self) -> None:
        self._file.close()
