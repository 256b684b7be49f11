"""The rows of one origin that may not be complete yet: batches in, the same batches out; many wait on disk."""

import tempfile
from collections.abc import Iterator

import pyarrow as pa

#: What stays in memory; more goes to disk, so that memory is flat however wide an origin is.
ROWS = 50_000
BYTES = 32 << 20


class Held:
    """An origin is produced in one piece, and never while more of it is awaited: a transaction that waits in the middle
    of one could neither be cut nor outlive its timeout."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.wide = False
        self._rows = self._bytes = 0
        self._few: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self.wide:
            self._writer.write_batch(rows)
            return
        self._few.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows > ROWS or self._bytes > BYTES:
            self._spill(rows.schema)

    def _spill(self, schema: pa.Schema) -> None:
        self.wide = True
        self._file = tempfile.TemporaryFile(prefix="eos-held-")  # noqa: SIM115 - closed by `close`
        self._writer = pa.ipc.new_stream(self._file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        for batch in self._few:
            self._writer.write_batch(batch)
        self._few = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, once, in their order."""
        if self.wide:
            self._writer.close()
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)
            self.close()
        else:
            yield from self._few

    def close(self) -> None:
        if self.wide:
            self._file.close()
