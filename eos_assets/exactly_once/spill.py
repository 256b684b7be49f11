"""The rows of one very wide origin: batches in, the same batches out, on disk in between, so that memory stays flat."""

import tempfile
from collections.abc import Iterator

import pyarrow as pa


class Spill:
    """Rows of one origin that wait for its end. An origin is produced in one piece, and never while more of it is
    awaited: a transaction that waits in the middle of one could neither be cut nor outlive its timeout."""

    def __init__(self, offset: int, schema: pa.Schema) -> None:
        self.offset = offset
        self._file = tempfile.TemporaryFile(prefix="eos-spill-")  # noqa: SIM115 - closed by `close`
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_stream(self._file, schema, options=options)

    def add(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._writer.write_batch(rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, once, in their order."""
        self._writer.close()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)
        self.close()

    def close(self) -> None:
        self._file.close()
