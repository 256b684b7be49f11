"""A transform whose result depends on where a range is cut is refused before anything is written."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets.run.preview import preview
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.state.folds import declare_sliding, sliding
from eos_assets_tests.transform.transforms import Transform, assert_nothing_written, outputs


def counted(records: DataFrame) -> DataFrame:
    return records.groupBy("key").agg(f.first("origin").alias("origin"), f.count("*").cast("string").alias("value"))


def first_of_key(records: DataFrame) -> DataFrame:
    place = f.row_number().over(Window.partitionBy("key").orderBy("origin.offset"))
    return outputs(records.withColumn("place", place).where("place = 1"))


def one_before(records: DataFrame) -> DataFrame:
    before = f.lag("value").over(Window.partitionBy("key").orderBy("origin.offset"))
    return records.select("key", before.alias("value"), "origin")


def in_groups(records: DataFrame) -> DataFrame:
    rows = outputs(records)
    return rows.groupBy("key").applyInPandas(lambda group: group.head(1), rows.schema)


def with_itself(records: DataFrame) -> DataFrame:
    return records.alias("a").join(records.alias("b"), f.expr("a.key = b.key")).select("a.key", "a.value", "a.origin")


def with_the_next(records: DataFrame) -> DataFrame:
    later = f.expr("struct(origin.partition, origin.offset + 1 as offset, origin.ordinal + 1 as ordinal)")
    following = records.select(f.col("value").alias("later"), later.alias("next_origin"))
    joined = records.join(following, f.expr("origin = next_origin"), "left")
    return joined.select("key", f.col("later").alias("value"), "origin")


def collected(records: DataFrame) -> DataFrame:
    rows = outputs(records)
    return records.sparkSession.createDataFrame(rows.toPandas(), rows.schema)


def in_a_subquery(records: DataFrame) -> DataFrame:
    text = "select key, (select max(value) from {records}) as value, origin from {records}"
    return records.sparkSession.sql(text, records=records)


#: Transform → the problem, and the remedy that the error names.
COMBINING: dict[str, tuple[Transform, str, str]] = {
    "dropDuplicates": (lambda r: outputs(r.dropDuplicates(["key"])), "combines records", "Unique(by, within)"),
    "groupBy": (counted, "combines records", "@stateful"),
    "groupBy without an origin": (lambda r: r.groupBy("key").count(), "combines records", "@stateful"),
    "agg": (lambda r: outputs(r.crossJoin(r.agg(f.max("value").alias("m")))), "combines records", "@stateful"),
    "applyInPandas": (in_groups, "combines records", "@stateful"),
    "row_number": (first_of_key, "window", "@stateful"),
    "lag": (one_before, "window", "@stateful"),
    "orderBy and limit": (lambda r: outputs(r.orderBy("value").limit(5)), "limits or samples", "Leave out limit"),
    "limit": (lambda r: outputs(r.limit(10)), "limits or samples", "Leave out limit"),
    "sample": (lambda r: outputs(r.sample(0.5, seed=1)), "limits or samples", "Leave out limit"),
    "join with itself": (with_itself, "joins its records with each other", "join on `origin`"),
    "join with the record after it": (with_the_next, "joins its records with each other", "join on `origin`"),
    "localCheckpoint": (lambda r: outputs(r.localCheckpoint()), "cannot follow back", "Leave it out"),
    "toPandas": (collected, "cannot follow back", "Leave it out"),
    "subquery": (in_a_subquery, "in a subquery", "@stateful"),
}


@pytest.mark.connect
@pytest.mark.parametrize(("transform", "problem", "remedy"), COMBINING.values(), ids=COMBINING)
def test_a_transform_that_combines_records_is_refused(
    make_lab: MakeLab, transform: Transform, problem: str, remedy: str
) -> None:
    """Also where it declares that it drops records: the plan is right on one range, and wrong on two."""
    lab = make_lab(transform, drops=True)
    lab.fill(90)
    for act in (lab.run, lambda: preview(lab.pipeline, lab.spark, lab.connection, 3)):
        with pytest.raises(EosError) as refusal:
            act()
        assert problem in refusal.value.problem
        assert remedy in refusal.value.remedy
        assert "Select it too" not in refusal.value.remedy
    assert_nothing_written(lab)


def regrouped(records: DataFrame) -> DataFrame:
    parts = f.explode(f.split(f.col("value").cast("string"), "")).alias("part")
    rows = records.select("key", parts, "origin").groupBy("origin").agg(f.sort_array(f.collect_list("part")).alias("p"))
    return rows.select(f.concat_ws("", "p").alias("value"), "origin")


def ranked(records: DataFrame) -> DataFrame:
    parts = f.explode(f.split(f.col("value").cast("string"), "")).alias("value")
    place = f.row_number().over(Window.partitionBy("origin").orderBy("value"))
    return records.select("key", parts, "origin").withColumn("sequence", place).where("sequence <= 2")


def rejoined(records: DataFrame) -> DataFrame:
    doubled = records.select((f.col("value").cast("string").cast("long") * 2).cast("string").alias("v"), "origin")
    return records.select("key", "origin").join(doubled, "origin").select("key", f.col("v").alias("value"), "origin")


def named_after_a_union(records: DataFrame) -> DataFrame:
    """The join is above the union: two scans come together, and no record meets another one."""
    names = records.sparkSession.createDataFrame([("1", "one")], "number string, name string")
    both = records.where("origin.offset % 2 = 0").union(records.where("origin.offset % 2 = 1"))
    joined = both.join(f.broadcast(names), f.expr("cast(value as string) = number"), "left")
    return joined.select("key", f.coalesce("name", "value").alias("value"), "origin")


def test_a_join_with_itself_is_refused_without_adaptive_execution(make_lab: MakeLab) -> None:
    """There Spark reads both sides once, and the plan names the second one only by a number."""
    lab = make_lab(with_itself)
    lab.fill(90)
    lab.spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        with pytest.raises(EosError, match="joins its records with each other"):
            lab.run()
    finally:
        lab.spark.conf.unset("spark.sql.adaptive.enabled")
    assert_nothing_written(lab)


@pytest.mark.connect
@pytest.mark.parametrize("transform", [regrouped, ranked, rejoined, named_after_a_union])
def test_the_rows_of_one_record_may_be_combined(make_lab: MakeLab, transform: Transform) -> None:
    """Grouped by `origin` it does not matter where a range is cut."""
    lab = make_lab(transform)
    lab.fill(90)
    assert lab.run(max_records=40).complete
    assert lab.run().complete
    assert len(lab.read()) >= 90
    assert lab.broken() == set()


def unseeded(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    out, changed = sliding(records, state)
    return out.withColumn("value", f.uuid().cast("binary")), changed


def limited(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    out, changed = sliding(records, state)
    return out.limit(3), changed


@pytest.mark.parametrize(("fold", "problem"), [(unseeded, "uses uuid()"), (limited, "limits or samples")])
def test_a_stateful_function_is_refused_too(make_lab: MakeLab, fold: Any, problem: str) -> None:
    lab = make_lab(pipeline=declare_sliding(partitions=1)).with_(fold=fold)
    lab.produce([b"x"] * 90, key=b"k")
    with pytest.raises(EosError) as refusal:
        lab.run()
    assert problem in refusal.value.problem
    assert "deterministic=False" not in refusal.value.remedy
    assert_nothing_written(lab)
