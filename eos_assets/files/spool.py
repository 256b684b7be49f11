"""A reference in, all records of the file out, on disk and proven to the last row; or the reason why there are none."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO

import pyarrow as pa

from eos_assets.files.access import Access
from eos_assets.files.broken import BrokenFile, Refused, Unreachable, check_disk, not_understood
from eos_assets.files.csv_rows import CsvReader
from eos_assets.files.download import download
from eos_assets.files.json_rows import json_array, json_lines
from eos_assets.files.limits import Meter
from eos_assets.files.parquet_rows import parquet_rows
from eos_assets.files.reference import Reference
from eos_assets.files.rows import Rows
from eos_assets.files.transactions import SCHEMA, transactions
from eos_assets.files.unpack import unpacked

#: Seconds before each further try at a store that did not answer.
WAITS = (0.2, 1.0)


class Spooled:
    """The records of one file, in its order. The space on disk is free again once they were read."""

    def __init__(self, file: IO[bytes], rows: int, digest: str) -> None:
        self._file = file
        self.rows = rows
        self.digest = digest

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._file:
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)


def spool(reference: Reference, access: Access) -> Spooled:
    """Downloads, parses and checks one file. A store that does not answer is asked again."""
    meter = Meter(access.limits)
    for wait in (*WAITS, None):
        meter.begin()
        try:
            return spooled(reference, access, meter)
        except Unreachable:
            if wait is None:
                raise
            time.sleep(min(wait, meter.remaining()))
    raise AssertionError  # the last try returns or raises


def spooled(reference: Reference, access: Access, meter: Meter) -> Spooled:
    with download(reference, access, meter) as source:
        file = tempfile.TemporaryFile(prefix="eos-file-")  # noqa: SIM115 - closed by whoever reads it
        try:
            rows = write(reference, unpacked(source, reference.format.compression, meter), meter, file)
            wrong = None
        except (Refused, Unreachable, MemoryError):
            raise
        except BrokenFile as broken:  # read on to its end: the digest of a bad file is worth knowing, too
            rows, wrong = 0, broken.reason
        except Exception as odd:  # whatever a library below makes of one file, the others go on
            check_disk(odd)
            rows, wrong = 0, not_understood(odd)
        digest = source.digest()
        if wrong is None and not (source.sure_end or reference.format.has_an_end or reference.checksum):
            wrong = "the server does not tell its length, so it may have been cut: declare a checksum"
        if reference.checksum not in (None, digest):
            wrong = f"wrong checksum: declared {reference.checksum}, found {digest}" + (f"; {wrong}" if wrong else "")
        if wrong is not None:
            raise BrokenFile(wrong, digest)
    return Spooled(file, rows, digest)


def write(reference: Reference, content: BinaryIO, meter: Meter, file: IO[bytes]) -> int:
    """Writes the records of the content and counts them."""
    count = 0
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(file, SCHEMA, options=options) as writer:
        for rows in parsed(reference.format.kind, content, meter):
            records = transactions(rows)
            writer.write_batch(records)
            count += records.num_rows
    return count


def parsed(kind: str, content: BinaryIO, meter: Meter) -> Iterator[Rows]:
    limit = meter.limits.max_row_bytes
    if kind == "csv":
        yield from CsvReader(content, limit).rows()
    elif kind == "jsonl":
        yield from json_lines(content, limit)
    elif kind == "json":
        yield from json_array(content, limit)
    else:
        with on_disk(content) as (file, size):
            yield from parquet_rows(file, size, meter)


@contextmanager
def on_disk(content: BinaryIO) -> Iterator[tuple[IO[bytes], int]]:
    """Parquet is read from its end, so all of it must be here first."""
    with tempfile.TemporaryFile(prefix="eos-parquet-") as file:
        shutil.copyfileobj(content, file, 1 << 20)
        size = file.tell()
        if not size:
            raise BrokenFile("the file is empty")
        file.seek(0)
        yield file, size
