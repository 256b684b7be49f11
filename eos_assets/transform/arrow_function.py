"""Calls the function of an Arrow pipeline on one batch, and checks what it returns.

A batch holds records of one source partition. What the function returns for it must come from these records, so the
outputs of a record never depend on another batch.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.message_memory import HEADERS, Integers
from eos_assets.log.dead_letter import REASON_CHARACTERS
from eos_assets.transform.user_code import own_line, type_name

#: The prefix of the columns in which a pandas DataFrame passes its index.
PANDAS_INDEX = "__index_level_"

BatchFunction = Callable[[pa.RecordBatch], Any]


def is_bytes(kind: pa.DataType) -> bool:
    return bool(kind in (pa.binary(), pa.large_binary(), pa.binary_view())) or is_text(kind)


def is_text(kind: pa.DataType) -> bool:
    return bool(kind in (pa.string(), pa.large_string(), pa.string_view()))


def is_headers(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type):
        return False
    return {field.name for field in kind.value_type} == {"key", "value"}


#: Column → whether a type is accepted, the type it gets, and how it is described.
COLUMNS: dict[str, tuple[Callable[[pa.DataType], bool], pa.DataType, str]] = {
    "value": (is_bytes, pa.binary(), "binary or string"),
    "key": (is_bytes, pa.binary(), "binary or string"),
    "headers": (is_headers, HEADERS, "list<struct<key: string, value: binary>>"),
    "timestamp": (pa.types.is_timestamp, pa.timestamp("ms", "UTC"), "a timestamp"),
    "topic": (is_text, pa.string(), "string"),
    "partition": (pa.types.is_integer, pa.int64(), "an integer"),
    "sequence": (pa.types.is_integer, pa.int64(), "an integer"),
    "error": (is_bytes, pa.binary(), "string"),
    "skip": (pa.types.is_boolean, pa.bool_(), "boolean"),
    "content_digest": (is_text, pa.string(), "string"),
    "origin": (pa.types.is_integer, pa.int64(), "the integers of `records`"),
}


#: A batch without records, as it is read.
EMPTY = pa.RecordBatch.from_pylist(
    [],
    pa.schema(
        [
            ("offset", pa.int64()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("timestamp", pa.int64()),
            ("headers", HEADERS),
        ]
    ),
)


@dataclass(frozen=True)
class ArrowFunction:
    """The function of one pipeline, as a task calls it."""

    pipeline: str
    function: BatchFunction
    #: The columns that its batches have in addition to `key`, `value` and `origin`.
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, pipeline: Pipeline) -> "ArrowFunction":
        return cls(pipeline.name, pipeline.transform, pipeline.batch_columns or ())

    @property
    def result_columns(self) -> list[str] | None:
        """The columns that the function returns, by its result for an empty batch. None if it raises on one."""
        try:
            return list(self.checked_columns(self.table_of(self.call(self.records(EMPTY, 0)))))
        except TaskError:
            return None

    def rows(self, batches: Iterable[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        """What the function returns for the batches of one partition, from its first record on."""
        ordinal = 0
        for batch in batches:
            ordinals = np.arange(ordinal, ordinal + batch.num_rows)
            ordinal += batch.num_rows
            yield self.apply(batch, partition, ordinals)

    def apply(self, batch: pa.RecordBatch, partition: int, ordinals: Integers) -> pa.RecordBatch:
        """The rows for the records of a batch: their origin and ordinal, and the columns of the result.

        Args:
            batch: `offset`, `key`, `value`, and what the pipeline declares of `timestamp` and `headers`.
            partition: the source partition.
            ordinals: the number of each record among those of its range.
        """
        result = self.table_of(self.call(self.records(batch, partition)))
        columns = self.checked_columns(result)
        offsets, origins = batch["offset"].to_numpy(), self.checked_origins(columns.pop("origin"), batch)
        order = self.order(origins, columns.get("sequence"))
        place = np.searchsorted(offsets, origins)
        rows = {
            "o_partition": pa.array(np.full(len(origins), partition, np.int32)),
            "o_offset": pa.array(origins),
            "o_ordinal": pa.array(ordinals[place]),
            **{"key": pa.nulls(len(origins), pa.binary()), **columns},
        }
        chosen = pa.record_batch(rows)
        return chosen if order is None else chosen.take(pa.array(order))

    def records(self, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        """The batch as the function gets it."""
        columns = {"key": batch["key"], "value": batch["value"]}
        if "timestamp" in self.columns:
            columns["timestamp"] = batch["timestamp"].cast(pa.timestamp("ms", "UTC"))
        if "headers" in self.columns:
            columns["headers"] = batch["headers"]
        if "partition" in self.columns:
            columns["partition"] = pa.array(np.full(batch.num_rows, partition, np.int32))
        return pa.record_batch({**columns, "origin": batch["offset"]})

    def call(self, records: pa.RecordBatch) -> Any:
        try:
            return self.function(records)
        except Exception as failure:
            line = own_line(failure)
            place = f" ({line})" if line else ""
            code = Code.MODULE_MISSING if isinstance(failure, ImportError) else Code.TRANSFORM_RAISED
            raise TaskError(code, f"{type(failure).__name__}: {failure}{place}") from failure

    def table_of(self, result: Any) -> pa.Table:
        """The result as a table. Polars and pandas DataFrames and relations of DuckDB have Arrow's interface, too."""
        if isinstance(result, pa.RecordBatch):
            return pa.Table.from_batches([result])
        if isinstance(result, pa.Table):
            return result
        if hasattr(result, "__arrow_c_stream__"):
            table = pa.table(result)
            return table.drop_columns([name for name in table.column_names if name.startswith(PANDAS_INDEX)])
        remedy = "a `return` may be missing" if result is None else "return eos.output(records, …)"
        raise self.invalid(f"is {type_name(result)} instead of an Arrow batch", remedy)

    def checked_columns(self, result: pa.Table) -> dict[str, pa.Array]:
        """The columns of a result in the types that the sink takes."""
        names = result.column_names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise self.invalid(f"has more than one column `{repeated[0]}`", "keep one of them")
        for name, what in (("origin", "names the source record that a row came from"), ("value", "is written")):
            if name not in names:
                raise self.invalid(f"has no column `{name}`", f"return it too: it {what}")
        columns = {}
        for name in names:
            if name not in COLUMNS:
                raise self.invalid(
                    f"has an unknown column `{name}`", f"drop it; a result may have {', '.join(COLUMNS)}"
                )
            columns[name] = self.checked_column(name, combine(result[name]))
        return columns | self.worker_columns(columns)

    def checked_column(self, name: str, column: pa.Array) -> pa.Array:
        accepts, wanted, description = COLUMNS[name]
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if not pa.types.is_null(column.type) and not accepts(column.type):
            raise self.invalid(f"has a column `{name}` of type {column.type}", f"make it {description}")
        if column.type == wanted:
            return column
        if name == "headers":
            return pa.array(column.to_pylist(), HEADERS)
        return pc.cast(column, wanted, safe=False)

    def worker_columns(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """The columns that the sink takes in another form."""
        changed = {}
        if "timestamp" in columns:
            changed["timestamp"] = columns["timestamp"].cast(pa.int64())
        if "error" in columns:
            changed["error"] = pc.binary_slice(columns["error"], 0, 4 * REASON_CHARACTERS)
        if "sequence" in columns:  # a row that is not an output needs none
            changed["sequence"] = pc.if_else(
                pc.and_(columns["sequence"].is_null(), is_no_output(columns)), 0, columns["sequence"]
            )
        return changed

    def checked_origins(self, origins: pa.Array, batch: pa.RecordBatch) -> Integers:
        """The source offset of each row, which must be one of the batch."""
        if origins.null_count:
            raise TaskError(Code.ROW_WITHOUT_ORIGIN, "a row of the result has no origin")
        numbers, offsets = origins.to_numpy(), batch["offset"].to_numpy()
        place = np.searchsorted(offsets, numbers)
        known = place < len(offsets)
        known[known] = offsets[place[known]] == numbers[known]
        if not known.all():
            raise self.invalid(
                f"has a row with origin {numbers[~known][0]}, which is not one of its records",
                "keep the column `origin` of `records` in each row",
            )
        checked: Integers = numbers
        return checked

    def order(self, origins: Integers, sequence: pa.Array | None) -> Integers | None:
        """The order by record and then by sequence; None if the rows are in this order."""
        if sequence is not None:
            order: Integers = np.lexsort((pc.fill_null(sequence, 0).to_numpy(), origins))
            return order
        return None if (np.diff(origins) >= 0).all() else np.argsort(origins, kind="stable")

    def invalid(self, problem: str, remedy: str) -> TaskError:
        return TaskError(Code.INVALID_RESULT, f"The result of {self.pipeline} {problem}: {remedy}.")


def is_no_output(columns: dict[str, pa.Array]) -> pa.Array:
    """Whether each row is a dead letter or a skip."""
    rows = len(columns["value"])
    rejected = columns["error"].is_valid() if "error" in columns else pa.array(np.zeros(rows, bool))
    skipped = pc.fill_null(columns["skip"], False) if "skip" in columns else pa.array(np.zeros(rows, bool))
    return pc.or_(rejected, skipped)


def combine(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


#: What a DataFrame of the results of an Arrow pipeline holds: every column that a result may have.
FRAME = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp timestamp, topic string, "
    "partition bigint, sequence bigint, error string, skip boolean, content_digest string, "
    "origin struct<partition:int,offset:bigint,ordinal:bigint>"
)
FRAME_COLUMNS = ("key", "value", "headers", "timestamp", "topic", "partition", "sequence", "error", "skip")
ORIGIN = ("partition", "offset", "ordinal")


def frame_task(function: ArrowFunction) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Applies the function to the records of a DataFrame, for previews and for comparing row by row."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            partitions = batch["origin"].field("partition").to_numpy()
            cuts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), batch.num_rows]
            for low, high in itertools.pairwise(cuts):
                if high > low:
                    yield apply_to_frame(function, batch.slice(low, high - low), int(partitions[low]))

    return task


def apply_to_frame(function: ArrowFunction, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    origin = batch["origin"]
    columns = {"offset": origin.field("offset"), "key": batch["key"], "value": batch["value"]}
    if "timestamp" in function.columns:
        columns["timestamp"] = batch["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    if "headers" in function.columns:
        columns["headers"] = batch["headers"]
    try:
        rows = function.apply(pa.record_batch(columns), partition, origin.field("ordinal").to_numpy())
    except TaskError as error:
        raise error.__cause__ or error from None  # what the function raises, as that of a pipeline of DataFrames
    return as_frame(rows)


def as_frame(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Worker rows in the schema of a frame."""
    present = set(rows.schema.names)
    kinds = {name: COLUMNS[name][1] for name in COLUMNS} | {"timestamp": pa.timestamp("us", "UTC")}
    columns: dict[str, pa.Array] = {
        name: rows[name] if name in present else pa.nulls(rows.num_rows, kinds[name])
        for name in (*FRAME_COLUMNS, "content_digest")
    }
    if "timestamp" in present:
        columns["timestamp"] = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(kinds["timestamp"])
    columns["error"] = decode(columns["error"])
    fields = [rows[f"o_{name}"] for name in ORIGIN]
    return pa.record_batch({**columns, "origin": pa.StructArray.from_arrays(fields, ORIGIN)})


def decode(reasons: pa.Array) -> pa.Array:
    """Reasons as text. They may quote a record that is not UTF-8."""
    if reasons.null_count == len(reasons):
        return pa.nulls(len(reasons), pa.string())
    return pa.array([None if r is None else r.decode(errors="replace") for r in reasons.to_pylist()], pa.string())
