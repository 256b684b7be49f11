"""The Spark task of `file_transactions`: each record that refers to a file becomes the records of that file."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.errors import FileError, describe_unexpected
from eos_assets.files.spool import spool

#: The columns of the result, for Spark and for Arrow. The first row of each file has its digest.
RESULT_COLUMNS = (
    "key binary, value binary, error string, skip boolean, content_digest string, "
    "origin struct<partition:int,offset:bigint,ordinal:bigint>"
)
ORIGIN = pa.struct([("partition", pa.int32()), ("offset", pa.int64()), ("ordinal", pa.int64())])
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("error", pa.string()),
        ("skip", pa.bool_()),
        ("content_digest", pa.string()),
        ("origin", ORIGIN),
    ]
)
Batches = Iterable[pa.RecordBatch]


def file_reader(access: Access) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`, over `value` and `origin`. The declared access travels with it."""

    def read_files(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value, origin in zip(batch["value"].to_pylist(), batch["origin"].to_pylist(), strict=True):
                if access.empty:  # a setting is missing, so no record becomes a dead letter
                    raise PermissionError("no place for files is declared: set EOS_FILES_ROOT or EOS_FILES_HOSTS")
                yield from read_file(value, origin, access)

    return read_files


def read_file(value: bytes | None, origin: dict[str, int], access: Access) -> Iterator[pa.RecordBatch]:
    """Return the records of one file once all of it is checked, or else its error."""
    try:
        file = spool(reference.parse(value), access)
    except FileError as failure:
        yield single_row(origin, error=failure.reason, content_digest=failure.digest)
        return
    except ValueError as failure:  # a URL or a response that a library cannot parse
        yield single_row(origin, error=describe_unexpected(failure))
        return
    if not file.rows:
        yield single_row(origin, skip=True, content_digest=file.digest)
    digest: str | None = file.digest
    for batch in file.batches():
        yield add_origin(batch, origin, digest)
        digest = None


def single_row(origin: dict[str, int], *, error: str | None = None, **columns: Any) -> pa.RecordBatch:
    """A result without a record. A reason may quote text that is not valid Unicode; that becomes question marks."""
    reason = None if error is None else error.encode(errors="replace").decode()
    return pa.RecordBatch.from_pylist([{"origin": origin, "error": reason, **columns}], SCHEMA)


def add_origin(batch: pa.RecordBatch, origin: dict[str, int], digest: str | None) -> pa.RecordBatch:
    """The result for a batch of records of one file. Only the first batch has the digest of the file."""
    rows = batch.num_rows
    numbers = [pa.repeat(pa.scalar(origin[field.name], field.type), rows) for field in ORIGIN]
    origins = pa.StructArray.from_arrays(numbers, fields=list(ORIGIN))
    digests = pa.nulls(rows, pa.string())
    if digest is not None:
        digests = pa.concat_arrays([pa.array([digest]), digests.slice(1)])
    error, skip = pa.nulls(rows, pa.string()), pa.nulls(rows, pa.bool_())
    return pa.record_batch([batch["key"], batch["value"], error, skip, digests, origins], schema=SCHEMA)
