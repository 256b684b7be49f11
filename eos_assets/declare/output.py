"""The rows that a transform returns, with the columns that a sink needs and no others."""

from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

#: These are written as they are; numbers, dates and booleans are written as text.
WRITTEN_AS_THEY_ARE = ("binary", "string")


@overload
def output(
    records: "DataFrame",
    *,
    value: "Column | str",
    key: "Column | str" = "key",
    error: "Column | str | None" = None,
    skip: "Column | str | None" = None,
    topic: "Column | str | None" = None,
    partition: "Column | str | None" = None,
    sequence: "Column | str | None" = None,
    headers: "Column | str | None" = None,
    timestamp: "Column | str | None" = None,
) -> "DataFrame": ...


@overload
def output(
    records: "pa.RecordBatch | pa.Table",
    *,
    value: Any,
    key: Any = "key",
    error: Any = None,
    skip: Any = None,
    topic: Any = None,
    partition: Any = None,
    sequence: Any = None,
    headers: Any = None,
    timestamp: Any = None,
) -> "pa.Table": ...


def output(
    records: Any,
    *,
    value: Any,
    key: Any = "key",
    error: Any = None,
    skip: Any = None,
    topic: Any = None,
    partition: Any = None,
    sequence: Any = None,
    headers: Any = None,
    timestamp: Any = None,
) -> Any:
    """Select what a transform returns: each row of `records` becomes an output, a dead letter or a skip.

    Key and origin are carried along. Headers and timestamps of the source are not, because records with either are
    produced one by one, which is several times slower.

    Args:
        records: what the function received: a DataFrame with any columns that it added, or an Arrow batch. The columns
            of a batch are names, arrays or lists.
        value: the value, as a column or the name of one. Numbers, dates and booleans are written as text.
        key: the key; default: that of the source record.
        error: where it is not null, the source record becomes a dead letter with this reason.
        skip: where it is true, the row gives no output.
        topic: the sink, where several are declared.
        partition: the partition of the sink; default: that of the key, as Kafka's Java client chooses it.
        sequence: the position among the outputs of one source record; default: the order of the rows.
        headers: an array of structs of `key` and `value`.
        timestamp: the record's timestamp; default: the time at which it is produced.
    """
    columns = {
        "key": key,
        "value": value,
        "error": error,
        "skip": skip,
        "topic": topic,
        "partition": partition,
        "sequence": sequence,
        "headers": headers,
        "timestamp": timestamp,
    }
    if type(records).__module__.startswith("pyarrow"):
        from eos_assets.declare.arrow_output import arrow_output

        return arrow_output(records, columns)
    return frame_output(records, columns)


def frame_output(records: "DataFrame", columns: "dict[str, Column | str | None]") -> "DataFrame":
    from pyspark.sql import Column
    from pyspark.sql import functions as f

    for name, column in columns.items():
        if column is not None and not isinstance(column, str | Column):
            raise TypeError(f"eos.output: {name}={column!r} is not a column: use its name, or f.lit({column!r})")
    chosen = {
        name: f.col(column) if isinstance(column, str) else column
        for name, column in columns.items()
        if column is not None
    }
    rows = records.select(*(column.alias(name) for name, column in chosen.items()), "origin")
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    as_text = [name for name in ("key", "value") if types[name] not in WRITTEN_AS_THEY_ARE and "<" not in types[name]]
    return rows.withColumns({name: f.col(name).cast("string") for name in as_text}) if as_text else rows
