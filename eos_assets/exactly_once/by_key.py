"""A plain function of one record at a time in, a fold over all keys out: each key's records in order, in one pass."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]
#: The state of a key (None: it has none) and a record in; the columns of its result and the new state out.
Step = Callable[[Row | None, Row], tuple[Row, Row | None]]


def fold_by_key(records: "DataFrame", state: "DataFrame", step: Step, output: str) -> tuple["DataFrame", "DataFrame"]:
    """Outputs and changed state of a stateful function that must look at one record after the other.

    Only the state of keys that have records is touched, and rows stream by: neither a hot key nor many keys take
    memory. A step must not change the state it is given, but return another one.

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
    # The exchange is the same for outputs and changes, so Spark reads and joins once. Ordered by key, then by offset.
    ordered = joined.repartition("key").sortWithinPartitions("key", "origin.partition", "origin.offset")
    types = {field.name: field.dataType.simpleString() for field in before.schema.fields}
    schema = (
        f"key binary, origin struct<partition:int,offset:bigint,ordinal:bigint>, output struct<{output}>, "
        f"changed boolean, state {types['state']}"
    )
    results = spark_schema(records, schema)
    rows = ordered.mapInArrow(stepping(step, results), schema)
    changed = rows.where("changed").select("key", "state.*", f.col("state").isNull().alias("deleted"))
    return rows.select("key", "output.*", "origin"), changed


def spark_schema(frame: "DataFrame", schema: str) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.sparkSession.createDataFrame([], schema).schema)


def stepping(step: Step, schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task: rows sorted by key and offset in; each with its result out, the last one of a key with its state."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        key: bytes | None = None
        begun = False
        loaded: Row | None = None
        state: Row | None = None
        held: Row | None = None  # the last row of a key carries its state, and only the next key shows that it was it
        for batch in batches:
            done: list[Row] = []
            columns = (batch[name].to_pylist() for name in ("key", "origin", "record", "state"))
            for this, origin, record, before in zip(*columns, strict=True):
                if not begun or this != key:
                    if held is not None:
                        done.append(closed(held, loaded, state))
                    begun, key, loaded, state, held = True, this, before, before, None
                if held is not None:
                    done.append(held)
                result, state = step(state, record)
                held = {"key": this, "origin": origin, "output": result, "changed": False, "state": None}
            if done:
                yield pa.RecordBatch.from_pylist(done, schema)
        if held is not None:
            yield pa.RecordBatch.from_pylist([closed(held, loaded, state)], schema)

    return task


def closed(row: Row, loaded: Row | None, state: Row | None) -> Row:
    return row if state == loaded else {**row, "changed": True, "state": state}
