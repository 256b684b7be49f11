"""A fold from a plain Python function that takes the records of a key one after the other."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]
#: From the state of a key (None if it has none) and a record to the columns of its result and the new state.
Step = Callable[[Row | None, Row], tuple[Row, Row | None]]


class SinglePassResult(tuple["DataFrame", "DataFrame"]):
    """Outputs and changed state, with the DataFrame that both are selected from, so that it is computed only once."""

    rows: "DataFrame"

    def __new__(cls, outputs: "DataFrame", changed: "DataFrame", rows: "DataFrame") -> "SinglePassResult":
        result = super().__new__(cls, (outputs, changed))
        result.rows = rows
        return result


def fold_by_key(records: "DataFrame", state: "DataFrame", step: Step, output: str) -> SinglePassResult:
    """Fold the records of each key in their order with a Python function.

    Only the state of keys that have records is read, and rows are streamed, so that neither a key with many records nor
    many keys need much memory.

    Args:
        records: as the function received them, with any columns it added. A step receives these, without `origin`.
        state: as the function received it.
        step: returns the columns of `output` and the new state for the state of a key and its next record.
        output: the columns of a result besides `key` and `origin`, as in SQL: "value string, error string".
    """
    from pyspark.sql import functions as f

    record_columns = [name for name in records.columns if name not in ("key", "origin")]
    state_columns = [name for name in state.columns if name != "key"]
    before = state.select("key", f.struct(*state_columns).alias("state"))
    joined = records.select("key", "origin", f.struct("key", *record_columns).alias("record")).join(
        before, "key", "left"
    )
    ordered = joined.repartition("key").sortWithinPartitions("key", "origin.partition", "origin.offset")
    types = {field.name: field.dataType.simpleString() for field in before.schema.fields}
    schema = (
        f"key binary, origin struct<partition:int,offset:bigint,ordinal:bigint>, output struct<{output}>, "
        f"store int, state {types['state']}"
    )
    rows = ordered.mapInArrow(make_task(step, arrow_schema(records, schema)), schema)
    outputs = rows.where("store is null").select("key", "output.*", "origin")
    changed = rows.where("store is not null").select("key", "state.*", f.col("state").isNull().alias("deleted"))
    return SinglePassResult(outputs, changed, rows)


def arrow_schema(frame: "DataFrame", schema: str) -> pa.Schema:
    """A SQL schema as Spark would send it to a Python worker."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.sparkSession.createDataFrame([], schema).schema)


def make_task(step: Step, schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a Spark task whose rows are sorted by key and offset. It returns the result of each row, and the
    state of a key after its last row if the state has changed."""
    output_type, store_type, state_type = (schema.field(name).type for name in ("output", "store", "state"))

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        key: bytes | None = None
        partition: int | None = None  # None before the first row
        loaded = state = None
        for batch in batches:
            results: list[Row] = []
            changes: list[Row] = []
            partitions = pc.struct_field(batch["origin"], "partition").to_pylist()
            keys, states = batch["key"].to_pylist(), batch["state"].to_pylist()
            rows = zip(keys, partitions, rows_of(batch["record"]), states, strict=True)
            for row_key, row_partition, record, row_state in rows:
                if partition is None or row_key != key:
                    changes += state_change(key, partition, loaded, state)
                    key, partition, state = row_key, row_partition, row_state
                    loaded = copy.deepcopy(row_state)  # a step may change the object that it receives
                result, state = step(state, record)
                results.append(result)
            count = batch.num_rows
            columns = [batch["key"], batch["origin"], pa.array(results, output_type)]
            columns += [pa.nulls(count, store_type), pa.nulls(count, state_type)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            yield pa.RecordBatch.from_pylist(changes, schema)
        yield pa.RecordBatch.from_pylist(state_change(key, partition, loaded, state), schema)

    return task


def rows_of(structs: pa.StructArray) -> Iterator[Row]:
    """The rows as `to_pylist` returns them, but faster."""
    names = [structs.type.field(n).name for n in range(structs.type.num_fields)]
    for values in zip(*(column.to_pylist() for column in structs.flatten()), strict=True):
        yield dict(zip(names, values, strict=True))


def state_change(key: bytes | None, partition: int | None, loaded: Row | None, state: Row | None) -> list[Row]:
    """The row that writes the state of a key; none if it has not changed."""
    if partition is None or state == loaded:
        return []
    origin = {"partition": partition, "offset": 0, "ordinal": 0}  # a state has no offset of its own
    return [{"key": key, "origin": origin, "store": 0, "state": state}]
