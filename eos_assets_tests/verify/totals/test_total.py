"""Totals: the hash is Spark's, and nothing that matters cancels out in a sum."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from eos_assets.verify.sorted_rows import Integers
from eos_assets.verify.totals.total import Total, hash_rows, of_aggregates, sql_aggregates, total

EDGES = [0, 1, -1, 42, 2**31, 2**63 - 1, -(2**63)]
ROWS = [(a, b, c) for a in EDGES for b in EDGES for c in (0, -1)]
LONG = st.integers(-(2**63), 2**63 - 1)


def columns(rows: Sequence[tuple[int, ...]]) -> list[Integers]:
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def test_the_hash_and_its_sum_are_those_of_spark(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, "a long, b long, c int")
    hashed = [row.h for row in frame.selectExpr("xxhash64(a, b, CAST(c AS bigint)) AS h").collect()]
    ours = hash_rows(*columns(ROWS))
    assert ours.view(np.int64).tolist() == hashed
    (summed,) = frame.selectExpr("count(*) AS n", *sql_aggregates(["a", "b", "c"])).collect()
    assert of_aggregates(*summed) == total(ours)
    assert total(ours).sum == sum(ours.tolist()) % 2**64


def test_an_integer_is_a_column_of_it() -> None:
    rows = [(a, b, 7) for a in EDGES for b in EDGES]
    first, second, third = columns(rows)
    assert (hash_rows(first, second, 7) == hash_rows(first, second, third)).all()
    assert (hash_rows(first, second, -1) == hash_rows(first, second, np.full(len(rows), -1))).all()


def test_no_records_have_no_total(spark: SparkSession) -> None:
    assert total(hash_rows(np.zeros(0, np.int64), 1)) == Total()
    (empty,) = spark.range(0).selectExpr("count(*)", *sql_aggregates(["id"])).collect()
    assert of_aggregates(*empty) == Total()


@given(st.lists(st.tuples(LONG, LONG), min_size=1, max_size=20), st.data())
def test_a_total_is_the_same_for_every_order_and_every_cut(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    parts = (total(hash_rows(*columns(part))) for part in (shuffled[:cut], shuffled[cut:]) if part)
    assert sum(parts, Total()) == total(hash_rows(*columns(rows)))


@given(st.lists(st.tuples(LONG, LONG), min_size=2, max_size=20, unique=True), st.data())
def test_one_lost_doubled_or_exchanged_row_changes_the_total(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    """Two equal rows too many do not cancel out, as they would with an exclusive or."""
    right = total(hash_rows(*columns(rows)))
    one, other = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=2, max_size=2, unique=True))
    assert total(hash_rows(*columns([*rows, rows[one]]))) != right
    assert total(hash_rows(*columns([*rows, rows[one], rows[one]]))).sum != right.sum
    assert total(hash_rows(*columns([row for row in rows if row != rows[one]]))) != right
    if rows[one][0] != rows[other][0] and rows[one][1] != rows[other][1]:
        exchanged = [
            (rows[other][0], row[1]) if row == rows[one] else (rows[one][0], row[1]) if row == rows[other] else row
            for row in rows
        ]
        assert total(hash_rows(*columns(exchanged))) != right, "each content with the other's origin"
