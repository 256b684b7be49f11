"""Which plans keep each source partition whole and in order, on the Spark that runs."""

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.kafka.offsets import OffsetRange
from eos_assets.run.partition_alignment import NARROW, narrow_path
from eos_assets.transform.source import read_records
from eos_assets_tests.run.lab import Lab

Transform = Callable[[DataFrame], DataFrame]


def with_names(rows: DataFrame) -> DataFrame:
    names = rows.sparkSession.createDataFrame([("1", "one")], "number string, name string")
    return rows.join(f.broadcast(names), f.expr("cast(value as string) = number"), "left").select("name", "origin")


#: What a transform does → the operators of its plan from top to bottom, in the words of Spark 4.2.
PLANS: dict[str, tuple[Transform, list[str]]] = {
    "columns": (lambda r: r.where("value is not null").select("value", "origin"), ["Filter", "Project"]),
    "udf": (
        lambda r: r.select(f.udf(lambda v: v, "binary")("value").alias("value"), "origin"),
        ["Project", "ArrowEvalPython", "Project"],
    ),
    "udf without Arrow": (
        lambda r: r.select(f.udf(lambda v: v, "binary", useArrow=False)("value").alias("value"), "origin"),
        ["Project", "BatchEvalPython", "Project"],
    ),
    "explode": (
        lambda r: r.select(f.explode(f.array("key", "value")).alias("value"), "origin"),
        ["Project", "Generate", "Project"],
    ),
    "join": (with_names, ["AdaptiveSparkPlan", "Project", "BroadcastHashJoin", "Project"]),
    "mapInArrow": (
        lambda r: r.select("value", "origin").mapInArrow(lambda batches: batches, "value binary, origin struct<o:int>"),
        ["MapInArrow", "Project"],
    ),
    "mapInPandas": (
        lambda r: r.select("value").mapInPandas(lambda frames: frames, "value binary"),
        ["MapInPandas", "Project"],
    ),
}


@pytest.mark.connect
@pytest.mark.parametrize(("transform", "operators"), PLANS.values(), ids=PLANS)
def test_spark_4_2_plans_are_narrow_where_they_are_listed(lab: Lab, transform: Transform, operators: list[str]) -> None:
    assert lab.spark.version.startswith("4.2.")
    lab.fill(30)
    ranges = [OffsetRange(partition, 0, 5) for partition in range(3)]
    rows = transform(read_records(lab.spark, lab.connection, lab.source, ranges))
    path = narrow_path(rows, lab.pipeline)
    assert path is not None
    assert path[: len(operators)] == operators
    assert set(path) <= NARROW
    assert rows.select(f.spark_partition_id().alias("p")).distinct().count() == 3


@pytest.mark.connect
@pytest.mark.parametrize(
    "shuffle",
    [
        lambda r: r.repartition(2),
        lambda r: r.coalesce(1),
        lambda r: r.orderBy("value"),
        lambda r: r.unionByName(r),
        lambda r: r.hint("rebalance"),
        lambda r: r.sortWithinPartitions("value"),
    ],
    ids=["repartition", "coalesce", "sort", "union", "rebalance", "sortWithinPartitions"],
)
def test_any_other_plan_is_not(lab: Lab, shuffle: Transform) -> None:
    ranges = [OffsetRange(partition, 0, 5) for partition in range(3)]
    rows = read_records(lab.spark, lab.connection, lab.source, ranges).select("value", "origin")
    assert narrow_path(rows, lab.pipeline) is not None
    assert narrow_path(shuffle(rows), lab.pipeline) is None


def test_a_result_without_any_row_needs_no_scan(lab: Lab) -> None:
    rows = read_records(lab.spark, lab.connection, lab.source, [OffsetRange(0, 0, 5)]).where("1 = 0")
    assert narrow_path(rows, lab.pipeline) is None
