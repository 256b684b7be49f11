"""A transform that returns another result when it runs again is refused, unless it is declared."""

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets.run.preview import preview
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.transform.transforms import Transform, assert_nothing_written, outputs


def random_id(records: DataFrame) -> DataFrame:
    return records.select("key", f.concat(f.col("value").cast("string"), f.uuid()).alias("value"), "origin")


VARYING: dict[str, tuple[Transform, str]] = {
    "rand": (lambda r: r.select("key", f.rand().cast("string").alias("value"), "origin"), "uses rand()"),
    "rand with a seed": (lambda r: r.select("key", f.rand(42).cast("string").alias("value"), "origin"), "uses rand()"),
    "uuid": (random_id, "uses uuid()"),
    "filter": (lambda r: outputs(r.where(f.rand(1) < 0.5)), "uses rand()"),
    "expression": (lambda r: r.selectExpr("key", "concat(value, uuid()) as value", "origin"), "uses uuid()"),
    "current_timestamp": (
        lambda r: r.select("key", f.current_timestamp().cast("string").alias("value"), "origin"),
        "uses current_timestamp()",
    ),
    "partition id": (
        lambda r: r.select("key", f.spark_partition_id().cast("string").alias("value"), "origin"),
        "spark_partition_id()",
    ),
    "udf": (
        lambda r: r.select("key", f.udf(lambda v: v, "binary").asNondeterministic()("value").alias("value"), "origin"),
        "uses <lambda>()",
    ),
}


@pytest.mark.connect
@pytest.mark.parametrize(("transform", "problem"), VARYING.values(), ids=VARYING)
def test_a_transform_that_is_not_deterministic_is_refused_unless_it_is_declared(
    make_lab: MakeLab, transform: Transform, problem: str
) -> None:
    lab = make_lab(transform)
    lab.fill(90)
    for act in (lab.run, lambda: preview(lab.pipeline, lab.spark, lab.connection, 3)):
        with pytest.raises(EosError) as refusal:
            act()
        assert problem.lower() in refusal.value.problem.lower()
        assert "deterministic=False" in refusal.value.remedy
    assert_nothing_written(lab)


@pytest.mark.connect
def test_a_declared_one_runs_and_all_but_its_values_is_proven(make_lab: MakeLab) -> None:
    lab = make_lab(random_id, deterministic=False)
    lab.fill(90)
    assert lab.run().complete
    assert len({message.value() for message in lab.read()}) == 90
    assert lab.broken() == set()


@pytest.mark.connect
@pytest.mark.parametrize(
    "transform",
    [
        lambda r: r.select("key", f.lit("rand() and now()").alias("value"), "origin"),
        lambda r: r.selectExpr("key", "'uuid()' as value /* rand() */", "origin -- now()"),
        lambda r: r.select("key", f.udf(lambda v: v, "binary")("value").alias("value"), "origin"),
        lambda r: r.where("origin.offset % 2 = 0").union(r.where("origin.offset % 2 = 1")).select("value", "origin"),
    ],
    ids=["literal", "sql", "udf", "union"],
)
def test_a_transform_that_only_looks_non_deterministic_is_accepted(make_lab: MakeLab, transform: Transform) -> None:
    lab = make_lab(transform)
    lab.fill(90)
    assert lab.run().complete
    assert len(lab.read()) == 90
