"""Transforms with and without a shuffle lose nothing."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.experiment.faults import Faults
from eos_assets_tests.run.lab import Lab, MakeLab, squared
from eos_assets_tests.run.messages import collect_messages


def test_a_transform_without_a_shuffle_reports_none(lab: Lab) -> None:
    lab.fill(30)
    with collect_messages() as messages:
        assert lab.run().complete
    assert messages == []


@pytest.mark.connect
@pytest.mark.parametrize(
    "hidden",
    [
        lambda records: records.repartition(4),
        lambda records: records.coalesce(1),
        lambda records: records.orderBy(f.xxhash64("value")),
        lambda records: records.where("origin.offset % 2 = 0").union(records.where("origin.offset % 2 = 1")),
        lambda records: records.groupBy("origin").agg(f.first("key").alias("key"), f.first("value").alias("value")),
    ],
    ids=["repartition", "coalesce", "sort", "union", "groupBy"],
)
def test_a_hidden_shuffle_loses_nothing(make_lab: MakeLab, hidden) -> None:  # type: ignore[no-untyped-def]
    """F28: without bringing the rows back, the first task would commit the whole range and the rest would be lost."""
    lab = make_lab(lambda records: squared(hidden(records)))
    lab.fill(900)
    with collect_messages() as messages:
        assert lab.run(Faults(probability=0.3, seed=4)).complete
    (shuffle,) = [text for text in messages if "together and in order" in text]
    assert "twice as long" in shuffle
    lab.assert_squares(range(900))
    assert lab.lag() == 0
    assert lab.broken() == set()


def test_a_text_that_looks_like_a_plan_hides_no_shuffle(make_lab: MakeLab) -> None:
    """A plan contains what the user wrote: if this literal were parsed as operators, the shuffle would be hidden."""

    def lettered(records: DataFrame) -> DataFrame:
        letter = f.concat(f.lit("Name: "), f.col("value").cast("string"), f.lit("\nProject: none\n\n+- Sample: no"))
        return records.select("key", letter.alias("value"), "origin").repartition(4, "key")

    lab = make_lab(lettered, drops=True)
    lab.fill(400)
    assert lab.run().complete
    assert len(lab.read()) == 400
    assert lab.broken() == set()


@pytest.mark.connect
def test_a_small_table_may_be_joined(make_lab: MakeLab, spark: SparkSession) -> None:
    names = spark.createDataFrame([(n, f"name-{n}") for n in range(300)], "number string, name string")

    def named(records: DataFrame) -> DataFrame:
        joined = records.join(f.broadcast(names), f.col("value").cast("string") == f.col("number"), "left")
        return joined.select("key", f.col("name").alias("value"), "origin")

    lab = make_lab(named)
    lab.fill(300)
    assert lab.run().complete
    assert sorted(v or b"" for v in lab.values()) == sorted(b"name-%d" % n for n in range(300))
    assert lab.broken() == set()


def test_a_table_that_is_joined_may_be_limited(make_lab: MakeLab, spark: SparkSession) -> None:
    """The result does not depend on where the source is cut."""
    few = spark.range(1000).limit(1000).select(f.col("id").cast("string").alias("number"))

    def known(records: DataFrame) -> DataFrame:
        joined = records.join(f.broadcast(few), f.col("value").cast("string") == f.col("number"), "left")
        return joined.select("key", f.col("number").alias("value"), "origin")

    lab = make_lab(known)
    lab.fill(90)
    assert lab.run().complete
    assert sorted(int(v or -1) for v in lab.values()) == list(range(90))
