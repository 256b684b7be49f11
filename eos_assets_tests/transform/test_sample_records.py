"""A transform in a unit test."""

from pyspark.sql import SparkSession

from eos_assets.pipelines.squares import squares
from eos_assets.testing import sample_records


def test_a_transform_is_unit_tested_without_kafka(spark: SparkSession) -> None:
    given = [("a", "-12"), ("b", "x"), ("c", None), ("d", "1.5"), ("e", "5\n")]
    rows = squares.transform(sample_records(spark, given)).collect()
    assert [row.value for row in rows] == ["144", None, None, None, None]
    assert [row.error is None for row in rows] == [True, False, False, False, False]
