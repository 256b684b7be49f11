"""What the function of an Arrow pipeline gets for a batch, and what it may return."""

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eos_assets as eos
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.message_memory import HEADERS
from eos_assets.transform.arrow_function import ArrowFunction

Function = Callable[[pa.RecordBatch], Any]
KEYS, VALUES = [b"k", None, b""], [b"a", b"\xc3\xa9", None]


def batch(**more: pa.Array) -> pa.RecordBatch:
    """Three records of partition 5, with a gap between their offsets."""
    columns = {"offset": pa.array([10, 11, 15]), "key": pa.array(KEYS), "value": pa.array(VALUES, pa.binary())}
    return pa.record_batch({**columns, **more})


def apply(function: Function, records: pa.RecordBatch | None = None, *columns: str) -> list[dict[str, Any]]:
    rows = ArrowFunction("p", function, columns).apply(records or batch(), 5, np.array([0, 1, 2]))
    return list(rows.to_pylist())


def refused(function: Function, code: Code = Code.INVALID_RESULT) -> str:
    with pytest.raises(TaskError) as error:
        apply(function)
    assert error.value.code is code
    return str(error.value)


def as_it_is(records: pa.RecordBatch) -> pa.RecordBatch:
    return records


def test_each_row_has_the_origin_and_the_ordinal_of_its_record() -> None:
    rows = apply(as_it_is)
    assert [(row["o_partition"], row["o_offset"], row["o_ordinal"]) for row in rows] == [
        (5, 10, 0),
        (5, 11, 1),
        (5, 15, 2),
    ]
    assert [(row["key"], row["value"]) for row in rows] == list(zip(KEYS, VALUES, strict=True))


def test_a_batch_has_the_declared_columns_and_no_others() -> None:
    seen: list[pa.RecordBatch] = []

    def see(records: pa.RecordBatch) -> pa.Table:
        seen.append(records)
        return eos.output(records, value="value")

    headers = pa.array([[], [{"key": "h", "value": b"1"}], []], HEADERS)
    full = batch(timestamp=pa.array([0, 1, None], pa.int64()), headers=headers)
    apply(see, full)
    apply(see, full, "timestamp", "headers", "partition")
    assert [records.schema.names for records in seen] == [
        ["key", "value", "origin"],
        ["key", "value", "timestamp", "headers", "partition", "origin"],
    ]
    assert seen[1]["timestamp"].type == pa.timestamp("ms", "UTC")
    assert seen[1]["partition"].to_pylist() == [5, 5, 5]
    assert seen[1]["headers"].to_pylist()[1] == [{"key": "h", "value": b"1"}]


def upper_with_arrow(records: pa.RecordBatch) -> pa.Table:
    return eos.output(records, value=pc.utf8_upper(pc.cast(records["value"], pa.string())))


def upper_with_numpy(records: pa.RecordBatch) -> pa.Table:
    texts = np.array([(value or b"").decode() for value in records["value"].to_pylist()])
    return eos.output(records, value=pa.array(np.char.upper(texts), mask=np.array(records["value"].is_null())))


def upper_with_polars(records: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(records)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(pl.col("value").cast(pl.String).str.to_uppercase())


def upper_with_pandas(records: pa.RecordBatch) -> pd.DataFrame:
    frame: pd.DataFrame = records.to_pandas()
    return frame.assign(value=frame["value"].str.decode("utf-8").str.upper())[::-1]


def upper_with_duckdb(records: pa.RecordBatch) -> Any:
    return duckdb.sql("SELECT key, upper(decode(value)) AS value, origin FROM records")


@pytest.mark.parametrize(
    "function", [upper_with_arrow, upper_with_numpy, upper_with_polars, upper_with_pandas, upper_with_duckdb]
)
def test_a_result_may_be_made_with_any_of_these_libraries(function: Function) -> None:
    rows = apply(function)
    assert [(row["o_offset"], row["key"], row["value"]) for row in rows] == [
        (10, b"k", b"A"),
        (11, None, "É".encode()),
        (15, b"", None),
    ]


@given(st.lists(st.integers(0, 2), max_size=12), st.booleans())
def test_rows_are_in_the_order_of_their_records(origins: list[int], with_sequence: bool) -> None:
    """And within a record in the order in which they were returned, or in that of their sequence."""
    offsets = np.array([10, 11, 15])[origins] if origins else np.zeros(0, np.int64)
    sequence = np.arange(len(origins))[::-1]

    def spread(_: pa.RecordBatch) -> pa.Table:
        columns = {"value": pa.array([str(n) for n in range(len(origins))], pa.string()), "origin": pa.array(offsets)}
        return pa.table({**columns, "sequence": pa.array(sequence)} if with_sequence else columns)

    numbers = sorted(range(len(origins)), key=lambda n: (origins[n], -n if with_sequence else n))
    rows = apply(spread)
    assert [int(row["value"]) for row in rows] == numbers
    assert [row["o_ordinal"] for row in rows] == sorted(origins)
    assert all(row["key"] is None for row in rows)


def test_columns_get_the_types_that_the_sink_takes() -> None:
    def typed(records: pa.RecordBatch) -> pa.Table:
        return eos.output(
            records,
            value=[1, 2, None],
            key=[True, False, None],
            error=pa.array(["no", None, None]).dictionary_encode(),
            skip=[None, True, False],
            topic=pa.array(["t", None, "t"], pa.large_string()),
            partition=pa.array([0, 1, 2], pa.uint8()),
            sequence=[None, None, 7],
            timestamp=pa.array([None, 1_500_000, None], pa.timestamp("us")),
            headers=[None, [], [{"key": "h", "value": b"1"}]],
        )

    rows = apply(typed)
    assert [row["value"] for row in rows] == [b"1", b"2", None]
    assert [row["key"] for row in rows] == [b"true", b"false", None]
    assert [row["error"] for row in rows] == [b"no", None, None]
    assert [row["partition"] for row in rows] == [0, 1, 2]
    assert [row["sequence"] for row in rows] == [0, 0, 7], "a dead letter and a skip need none"
    assert [row["timestamp"] for row in rows] == [None, 1_500, None]
    assert [row["headers"] for row in rows] == [None, [], [{"key": "h", "value": b"1"}]]


def test_the_columns_of_a_result_are_known_before_it_has_rows() -> None:
    def spread(records: pa.RecordBatch) -> pa.Table:
        return eos.output(records, value="value", partition=[0] * records.num_rows)

    assert ArrowFunction("p", spread).result_columns == ["key", "value", "partition", "origin"]
    assert ArrowFunction("p", lambda records: records["value"][0]).result_columns is None


def test_what_the_function_raises_is_named_with_its_line() -> None:
    def raising(records: pa.RecordBatch) -> pa.Table:
        raise ValueError("no luck")

    def lacking(records: pa.RecordBatch) -> pa.Table:
        import a_module_that_is_nowhere  # type: ignore[import-not-found]

        return a_module_that_is_nowhere.of(records)

    text = refused(raising, Code.TRANSFORM_RAISED)
    assert text.startswith("ValueError: no luck (")
    assert 'in raising: raise ValueError("no luck")' in text
    assert "a_module_that_is_nowhere" in refused(lacking, Code.MODULE_MISSING)


def changed(name: str, column: Any) -> Function:
    return lambda records: pa.table({**{n: records[n] for n in records.schema.names}, name: column})


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda records: None, "is None instead of an Arrow batch: a `return` may be missing"),
        (lambda records: [1], r"is list instead of an Arrow batch: return eos.output\(records, …\)"),
        (lambda records: pa.table({"value": records["value"]}), "has no column `origin`: return it too"),
        (lambda records: pa.table({"origin": records["origin"]}), "has no column `value`: return it too"),
        (changed("valeu", ["a", "b", "c"]), "has an unknown column `valeu`: drop it; a result may have value, key,"),
        (changed("value", [1, 2, 3]), "has a column `value` of type int64: make it binary or string"),
        (changed("skip", ["a", "b", "c"]), "has a column `skip` of type string: make it boolean"),
        (changed("origin", [10.0, 11.0, 15.0]), "has a column `origin` of type double: make it the integers of"),
        (changed("origin", [10, 11, 12]), "has a row with origin 12, which is not one of its records"),
        (changed("headers", ["a", "b", "c"]), "has a column `headers` of type string: make it list<struct<key"),
        (
            lambda records: pa.table(
                [records["value"], records["value"], records["origin"]], ["value", "value", "origin"]
            ),
            "has more than one column `value`: keep one of them",
        ),
    ],
)
def test_a_result_that_cannot_be_written_is_refused(function: Function, problem: str) -> None:
    with pytest.raises(TaskError, match=f"The result of p {problem}") as error:
        apply(function)
    assert error.value.code is Code.INVALID_RESULT


def test_a_row_without_an_origin_is_refused() -> None:
    refused(changed("origin", [10, None, 15]), Code.ROW_WITHOUT_ORIGIN)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"value": 5}, "value=5 is not a column: use its name, or an array"),
        ({"value": ["a"]}, "value has 1 rows instead of 3"),
        ({"value": "valeu"}, "valeu"),
    ],
)
def test_an_output_that_is_not_a_column_is_refused(options: dict[str, Any], problem: str) -> None:
    text = refused(lambda records: eos.output(records, **options), Code.TRANSFORM_RAISED)
    assert problem in text


def test_a_function_is_tested_without_spark_and_kafka() -> None:
    @eos.arrow_pipeline(source="a", sink="b")
    def halves(records: pa.RecordBatch) -> pa.Table:
        """Halve each even integer."""
        text = pc.cast(records["value"], pa.string())
        is_number = pc.match_substring_regex(text, r"^-?[0-9]{1,18}$")
        numbers = pc.cast(pc.if_else(is_number, text, None), pa.int64())
        error = pc.if_else(is_number, None, "not an integer")
        return eos.output(
            records, value=pc.divide(numbers, 2), error=error, skip=pc.equal(pc.bit_wise_and(numbers, 1), 1)
        )

    assert halves.test([("a", "12"), ("b", "x"), ("c", "3"), (None, "-4")]) == [
        ("a", "6"),
        eos.Rejected("b", "not an integer"),
        eos.Skipped("c"),
        (None, "-2"),
    ]
