"""A transform whose result depends on where a range is cut, or on the moment, is refused before anything is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets.run.preview import preview
from eos_assets_tests.run.lab import Lab, MakeLab, squared
from eos_assets_tests.state.folds import declare_sliding, sliding

Transform = Callable[[DataFrame], DataFrame]


def outputs(rows: DataFrame) -> DataFrame:
    return rows.select("key", "value", "origin")


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
    "orderBy and limit": (lambda r: outputs(r.orderBy("value").limit(5)), "limits or samples", "leave out limit"),
    "limit": (lambda r: outputs(r.limit(10)), "limits or samples", "leave out limit"),
    "sample": (lambda r: outputs(r.sample(0.5, seed=1)), "limits or samples", "leave out limit"),
    "join with itself": (with_itself, "joins its records with each other", "join on `origin`"),
    "join with the record after it": (with_the_next, "joins its records with each other", "join on `origin`"),
    "localCheckpoint": (lambda r: outputs(r.localCheckpoint()), "cannot follow back", "leave it out"),
    "toPandas": (collected, "cannot follow back", "leave it out"),
    "subquery": (in_a_subquery, "in a subquery", "@stateful"),
}


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


def assert_nothing_written(lab: Lab) -> None:
    """Not even in an aborted transaction."""
    for topic in lab.pipeline.own_topics():
        assert lab.read(topic.name, "read_uncommitted") == [], topic.name
    assert lab.lag() == 90


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
        assert "Select it along" not in refusal.value.remedy
    assert_nothing_written(lab)


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
def test_a_declared_one_runs_and_is_proven_but_for_its_values(make_lab: MakeLab) -> None:
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
def test_what_only_looks_as_if_it_varied_is_accepted(make_lab: MakeLab, transform: Transform) -> None:
    lab = make_lab(transform)
    lab.fill(90)
    assert lab.run().complete
    assert len(lab.read()) == 90


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
def test_what_one_record_gave_may_be_combined(make_lab: MakeLab, transform: Transform) -> None:
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
def test_a_stateful_function_is_refused_likewise(make_lab: MakeLab, fold: Any, problem: str) -> None:
    lab = make_lab(pipeline=declare_sliding(partitions=1)).with_(fold=fold)
    lab.produce([b"x"] * 90, key=b"k")
    with pytest.raises(EosError) as refusal:
        lab.run()
    assert problem in refusal.value.problem
    assert "deterministic=False" not in refusal.value.remedy
    assert_nothing_written(lab)


def nothing(records: DataFrame) -> DataFrame:
    squared(records)
    return None  # type: ignore[return-value]


def misnamed(records: DataFrame) -> DataFrame:
    return records.select(f.col("valeu").alias("value"), "origin")


def moved(records: DataFrame) -> DataFrame:
    origin = f.col("origin").withField("partition", f.lit(9))
    return records.select("key", "value", origin.alias("origin"))


def hidden(records: DataFrame) -> DataFrame:
    return records.select("key", "value", f.when(f.col("origin.offset") < 0, f.col("origin")).alias("origin"))


@pytest.mark.parametrize(
    ("transform", "problem"),
    [(moved, "origin.partition 9"), (hidden, "a row without an origin")],
    ids=["moved", "hidden"],
)
def test_rows_that_belong_to_no_partition_are_refused_however_many_tasks_find_them(
    make_lab: MakeLab, transform: Transform, problem: str
) -> None:
    lab = make_lab(transform, on_error="isolate")
    lab.fill(90)
    with pytest.raises(EosError, match=problem):
        lab.run()
    assert_nothing_written(lab)


@pytest.mark.connect
def test_a_transform_that_returns_none_or_cannot_be_planned_names_its_line(make_lab: MakeLab) -> None:
    lab = make_lab(nothing, partitions=2)
    lab.fill(90)
    lines = Path(__file__).read_text().splitlines()
    definition = lines.index("def nothing(records: DataFrame) -> DataFrame:") + 1
    ends = [len([m for m in lab.read(lab.source) if m.partition() == p]) for p in (0, 1)]
    places = f"{lab.source}/0 offsets 0 to {ends[0] - 1}, {lab.source}/1 offsets 0 to {ends[1] - 1}"
    with pytest.raises(EosError) as refusal:
        lab.run()
    assert f"returned None instead of a DataFrame for {places} ({__file__}, line {definition}" in refusal.value.problem
    assert "a `return` may be missing" in refusal.value.remedy
    with pytest.raises(EosError) as refusal:
        lab.with_(transform=misnamed).run()
    place = lines.index('    return records.select(f.col("valeu").alias("value"), "origin")') + 1
    assert f"cannot be planned for {places}: " in refusal.value.problem
    assert "valeu" in refusal.value.problem
    assert f"({__file__}, line {place}" in refusal.value.problem
    assert_nothing_written(lab)


def priced(value: bytes) -> bytes:
    return b"%d" % (100 // (int(value) - 40))


@pytest.mark.connect
def test_a_function_that_raises_names_partition_offset_and_line(make_lab: MakeLab) -> None:
    """In a task, far from the user's code: the message leads back to the record and the line."""
    price = f.udf(priced, "binary")
    lab = make_lab(lambda r: r.select("key", price("value").alias("value"), "origin"), partitions=1)
    lab.produce(b"%d" % number for number in range(90))
    line = Path(__file__).read_text().splitlines().index('    return b"%d" % (100 // (int(value) - 40))') + 1
    with pytest.raises(EosError) as refusal:
        lab.run()
    assert f"raises on {lab.source}/0 offset 40: ZeroDivisionError: " in refusal.value.problem
    assert f'{Path(__file__).name}", line {line}' not in refusal.value.problem, "no stack trace"
    assert f"{Path(__file__).name}, line {line}, in priced: return" in refusal.value.problem
    assert "on_error='isolate'" in refusal.value.remedy
    assert_nothing_written(lab)
