"""Download one file, and keep all its records on disk until its last row is checked."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO

import pyarrow as pa

from eos_assets.files.access import Access
from eos_assets.files.csv_rows import CsvReader
from eos_assets.files.download import Download
from eos_assets.files.errors import (
    FileError,
    LimitExceeded,
    StoreUnavailable,
    describe_unexpected,
    reraise_system_error,
)
from eos_assets.files.fetch import fetch
from eos_assets.files.json_array import JsonArrayReader
from eos_assets.files.json_rows import read_json_lines
from eos_assets.files.limits import Meter
from eos_assets.files.parquet_rows import read_parquet
from eos_assets.files.reference import Reference
from eos_assets.files.rows import Rows
from eos_assets.files.transactions import SCHEMA, encode_transactions
from eos_assets.files.unpack import unpack

#: The pause, in seconds, before each further attempt at a store that is unavailable.
PAUSES = (0.2, 1.0)


class SpooledFile:
    """The records of one file, in its order. Reading them frees their space on disk."""

    def __init__(self, file: IO[bytes], rows: int, digest: str) -> None:
        self._file = file
        self.rows = rows
        self.digest = digest

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._file:
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)


def spool(reference: Reference, access: Access) -> SpooledFile:
    """Download, parse and check one file, with further attempts if its store is unavailable."""
    meter = Meter(access.limits)
    for pause in PAUSES:
        try:
            return spool_once(reference, access, meter)
        except StoreUnavailable:
            time.sleep(min(pause, meter.remaining()))
            meter.restart()
    return spool_once(reference, access, meter)


def spool_once(reference: Reference, access: Access, meter: Meter) -> SpooledFile:
    with fetch(reference, access, meter) as download:
        file = tempfile.TemporaryFile(prefix="eos-file-")  # noqa: SIM115 - its reader closes it
        try:
            rows, problem = spool_records(reference, download, meter, file), None
        except (LimitExceeded, StoreUnavailable, MemoryError):
            raise
        except FileError as failure:
            rows, problem = 0, failure.reason
        except Exception as failure:  # an error of a library about one file must not stop the others
            reraise_system_error(failure)
            rows, problem = 0, describe_unexpected(failure)
        digest = download.digest()  # of an invalid file, too: it identifies the content
        problem = check_content(reference, download, digest, problem)
        if problem is not None:
            raise FileError(problem, digest)
    return SpooledFile(file, rows, digest)


def check_content(reference: Reference, download: Download, digest: str, problem: str | None) -> str | None:
    """The reason why the content is not delivered, if there is one: a wrong checksum comes first."""
    detectable = download.detects_truncation or reference.format.detects_truncation or reference.checksum
    if problem is None and not detectable:
        problem = "the server does not declare the length, so a truncated file would look whole: declare a checksum"
    if reference.checksum in (None, digest):
        return problem
    mismatch = f"wrong checksum: declared {reference.checksum}, found {digest}"
    return mismatch if problem is None else f"{mismatch}; {problem}"


def spool_records(reference: Reference, download: Download, meter: Meter, file: IO[bytes]) -> int:
    """Write the records of a file to disk, and return their number."""
    content = unpack(download, reference.format.compression, meter)
    count = 0
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(file, SCHEMA, options=options) as writer:
        for rows in read_rows(reference.format.kind, content, meter):
            records = encode_transactions(rows)
            writer.write_batch(records)
            count += records.num_rows
    return count


def read_rows(kind: str, content: BinaryIO, meter: Meter) -> Iterator[Rows]:
    limit = meter.limits.max_row_bytes
    if kind == "csv":
        yield from CsvReader(content, limit).read()
    elif kind == "jsonl":
        yield from read_json_lines(content, limit)
    elif kind == "json":
        yield from JsonArrayReader(content, limit).read()
    else:
        with copy_to_disk(content) as (file, size):
            yield from read_parquet(file, size, meter)


@contextmanager
def copy_to_disk(content: BinaryIO) -> Iterator[tuple[IO[bytes], int]]:
    """The whole content as a file: Parquet is read from its end."""
    with tempfile.TemporaryFile(prefix="eos-parquet-") as file:
        shutil.copyfileobj(content, file, 1 << 20)
        size = file.tell()
        if not size:
            raise FileError("the file is empty")
        file.seek(0)
        yield file, size
