"""A plain function of one record at a time in, a fold over all keys out: each key's records in order, in one pass."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]
#: The state of a key (None: it has none) and a record in; the columns of its result and the new state out.
Step = Callable[[Row | None, Row], tuple[Row, Row | None]]


class ByKey(tuple["DataFrame", "DataFrame"]):
    """Outputs and changed state, and the one frame that both are taken from: the engine computes it only once."""

    rows: "DataFrame"


def fold_by_key(records: "DataFrame", state: "DataFrame", step: Step, output: str) -> ByKey:
    """Outputs and changed state of a stateful function that must look at one record after the other.

    Only the state of keys that have records is touched, and rows stream by: neither a hot key nor many keys take
    memory.

    Args:
        records: as the function got them, with whatever columns it added; a step gets those, without `origin`.
        state: as the function got it.
        step: the state of a key and its next record in, the columns of `output` and the new state out.
        output: the columns of a result besides `key` and `origin`, as in SQL: "value string, error string".
    """
    from pyspark.sql import functions as f

    given = [name for name in records.columns if name not in ("key", "origin")]
    kept = [name for name in state.columns if name != "key"]
    before = state.select("key", f.struct(*kept).alias("state"))
    joined = records.select("key", "origin", f.struct("key", *given).alias("record")).join(before, "key", "left")
    ordered = joined.repartition("key").sortWithinPartitions("key", "origin.partition", "origin.offset")
    types = {field.name: field.dataType.simpleString() for field in before.schema.fields}
    schema = (
        f"key binary, origin struct<partition:int,offset:bigint,ordinal:bigint>, output struct<{output}>, "
        f"store int, state {types['state']}"
    )
    rows = ordered.mapInArrow(stepping(step, arrow_schema(records, schema)), schema)
    changes = rows.where("store is not null")
    changed = changes.select("key", "state.*", f.col("state").isNull().alias("deleted"))
    pair = ByKey((rows.where("store is null").select("key", "output.*", "origin"), changed))
    pair.rows = rows
    return pair


def arrow_schema(frame: "DataFrame", schema: str) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.sparkSession.createDataFrame([], schema).schema)


def stepping(step: Step, schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task: rows sorted by key and offset in; the result of each out, and behind the last of a key its state, if
    that is another one now."""

    output, store, kept = (schema.field(name).type for name in ("output", "store", "state"))

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        key: bytes | None = None
        partition: int | None = None  # None before the first row
        loaded = state = None
        for batch in batches:
            results: list[Row] = []
            changes: list[Row] = []
            partitions = pc.struct_field(batch["origin"], "partition").to_pylist()
            keys, before = batch["key"].to_pylist(), batch["state"].to_pylist()
            for this, home, record, found in zip(keys, partitions, rows_of(batch["record"]), before, strict=True):
                if partition is None or this != key:
                    changes += changed(key, partition, loaded, state)
                    key, partition, state = this, home, found
                    loaded = copy.deepcopy(found)  # a step may change the very state that it is given
                result, state = step(state, record)
                results.append(result)
            rows, none = batch.num_rows, pa.nulls
            given = [batch["key"], batch["origin"], pa.array(results, output), none(rows, store), none(rows, kept)]
            yield pa.RecordBatch.from_arrays(given, schema=schema)
            yield pa.RecordBatch.from_pylist(changes, schema)
        yield pa.RecordBatch.from_pylist(changed(key, partition, loaded, state), schema)

    return task


def rows_of(structs: pa.StructArray) -> Iterator[Row]:
    """As `to_pylist`, but quicker."""
    names = [structs.type.field(n).name for n in range(structs.type.num_fields)]
    for values in zip(*(column.to_pylist() for column in structs.flatten()), strict=True):
        yield dict(zip(names, values, strict=True))


def changed(key: bytes | None, partition: int | None, loaded: Row | None, state: Row | None) -> list[Row]:
    if partition is None or state == loaded:
        return []
    nowhere = {"partition": partition, "offset": 0, "ordinal": 0}
    return [{"key": key, "origin": nowhere, "store": 0, "state": state}]
