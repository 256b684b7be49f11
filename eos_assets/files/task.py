"""The Spark task: records that refer to files in, the records of those files out, each file whole or not at all."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from eos_assets.files import reference
from eos_assets.files.access import Access
from eos_assets.files.broken import BrokenFile, not_understood
from eos_assets.files.spool import spool

#: The columns of the result. The digest stands in the first row of each file.
ROWS = (
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


def unfolded(access: Access) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`, over `value` and `origin`. What is declared travels with it."""

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value, origin in zip(batch["value"].to_pylist(), batch["origin"].to_pylist(), strict=True):
                if access.nowhere:  # no fault of a record: nothing becomes a dead letter
                    raise PermissionError("no place for files is declared: set EOS_FILES_ROOT or EOS_FILES_HOSTS")
                yield from records_of(value, origin, access)

    return task


def records_of(value: bytes | None, origin: dict[str, int], access: Access) -> Iterator[pa.RecordBatch]:
    """Nothing is given out before the file was read to its end and found right."""
    try:
        file = spool(reference.parse(value), access)
    except BrokenFile as broken:
        yield one_row(origin, error=broken.reason, content_digest=broken.digest)
        return
    except ValueError as odd:  # a reference or an answer
        yield one_row(origin, error=not_understood(odd))
        return
    if not file.rows:
        yield one_row(origin, skip=True, content_digest=file.digest)
    digest: str | None = file.digest
    for batch in file.batches():
        yield result(batch, origin, digest)
        digest = None


def one_row(origin: dict[str, int], *, error: str | None = None, **columns: Any) -> pa.RecordBatch:
    """A reason may quote anything; what is no Unicode in it becomes a question mark."""
    told = None if error is None else error.encode(errors="replace").decode()
    return pa.RecordBatch.from_pylist([{"origin": origin, "error": told, **columns}], SCHEMA)


def result(batch: pa.RecordBatch, origin: dict[str, int], digest: str | None) -> pa.RecordBatch:
    rows = batch.num_rows
    numbers = [pa.repeat(pa.scalar(origin[field.name], field.type), rows) for field in ORIGIN]
    digests = pa.nulls(rows, pa.string())
    if digest is not None:
        digests = pa.concat_arrays([pa.array([digest]), digests.slice(1)])
    nothing = [pa.nulls(rows, pa.string()), pa.nulls(rows, pa.bool_()), digests]
    origins = pa.StructArray.from_arrays(numbers, fields=list(ORIGIN))
    return pa.record_batch([batch["key"], batch["value"], *nothing, origins], schema=SCHEMA)
