"""The columns of a result, their types, and the origin."""

import uuid

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.run.preview import preview
from eos_assets_tests.run.lab import Lab, MakeLab, squared
from eos_assets_tests.transform.transforms import Transform, assert_nothing_written


def test_an_alias_of_the_result_does_not_hide_the_origin(make_lab: MakeLab) -> None:
    """`origin.partition` would then be its column `partition`, and one partition would get the records of another."""

    def aliased(records: DataFrame) -> DataFrame:
        return squared(records).withColumn("partition", f.lit(1)).alias("origin")

    lab = make_lab(aliased)
    lab.fill(300)
    assert lab.run().complete
    partitions_and_values = [(message.partition(), int(message.value() or 0)) for message in lab.read()]
    assert sorted(partitions_and_values) == [(1, number * number) for number in range(300)]
    assert lab.broken() == set()


def test_a_session_may_reserve_sql_keywords(lab: Lab) -> None:
    setting = "spark.sql.ansi.enforceReservedKeywords"
    original = str(lab.spark.conf.get(setting))
    lab.spark.conf.set(setting, "true")
    try:
        lab.fill(30)
        assert lab.run().complete
        lab.assert_squares(range(30))
        assert lab.broken() == set()
    finally:
        lab.spark.conf.set(setting, original)


@pytest.mark.parametrize("on_error", ["stop", "isolate"])
def test_a_row_without_an_origin_is_refused_at_once(make_lab: MakeLab, spark: SparkSession, on_error: str) -> None:
    """An outer join also returns what matches no record. No record is the cause, so none is isolated."""
    names = spark.createDataFrame([("0", "zero"), ("x", "nobody")], "number string, name string")

    def named(records: DataFrame) -> DataFrame:
        joined = records.join(names, f.col("value").cast("string") == f.col("number"), "full")
        return joined.select("key", f.col("name").alias("value"), "origin")

    lab = make_lab(named, partitions=1, on_error=on_error)
    lab.fill(3)
    with pytest.raises(EosError, match=r"returned a row without an origin(.|\n)*join with `left`"):
        lab.run()
    with pytest.raises(EosError, match="returned a row without an origin"):
        preview(lab.pipeline, lab.spark, lab.connection, 3)
    assert lab.read() == []
    assert lab.read(lab.pipeline.names().dead_letters) == []


@pytest.mark.connect
def test_headers_timestamps_and_nulls_are_kept(make_lab: MakeLab) -> None:
    def same(records: DataFrame) -> DataFrame:
        return records.select("key", "value", "headers", "timestamp", "origin")

    lab = make_lab(same, partitions=1)
    lab.produce([b"v"], key=b"k", headers=[("a", b"1"), ("a", b"2"), ("b", None)])
    lab.produce([None], key=b"tombstone")
    lab.produce([b"no key"], key=None)
    lab.produce([b""], key=b"")
    before = lab.read(lab.source)
    assert lab.run().complete
    after = lab.read()
    as_written = [(m.key(), m.value(), m.headers() or None, m.timestamp()) for m in before]
    assert sorted(map(repr, as_written)) == sorted(
        repr((m.key(), m.value(), m.headers() or None, m.timestamp())) for m in after
    )
    assert lab.broken() == set()


@pytest.mark.connect
def test_a_result_without_origin_is_refused_before_anything_runs(make_lab: MakeLab) -> None:
    wrong = {
        "no column `origin`": lambda r: r.select("key", "value"),
        "a column `origin` of type int": lambda r: r.select("value", f.lit(1).alias("origin")),
        "no column `value`": lambda r: r.select("key", "origin"),
        "unknown column `note`": lambda r: r.select("value", "origin", f.lit(1).alias("note")),
        "is bigint": lambda r: r.select(f.lit(1).cast("long").alias("value"), "origin"),
        "cannot be planned": lambda r: r.select("no_such_column", "origin"),
        "more than one column `value`": lambda r: r.select("value", f.col("key").alias("value"), "origin"),
    }
    lab = make_lab()
    lab.fill(30)
    for problem, transform in wrong.items():
        with pytest.raises(EosError, match=problem):
            lab.with_(transform=transform).run()
        with pytest.raises(EosError, match=problem):
            preview(lab.with_(transform=transform).pipeline, lab.spark, lab.connection, 3)
    assert lab.read() == []


def test_the_reason_of_a_dead_letter_is_cut_to_fit(make_lab: MakeLab) -> None:
    def wordy(records: DataFrame) -> DataFrame:
        return records.select("key", "value", f.repeat(f.lit("no! "), 1_000_000).alias("error"), "origin")

    lab = make_lab(wordy, partitions=1, sink=[Topic(f"wordy-{uuid.uuid4().hex[:8]}", retention_ms=86_400_000)])
    lab.produce([b"1"])
    assert lab.run().complete
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert dict(letter.headers() or [])["eos.error"] == b"no! " * 1000
    (kept,) = [t for t in lab.pipeline.own_topics() if t.name == lab.pipeline.names().dead_letters]
    assert kept.retention_ms == 86_400_000, "as long as the sink"
    assert lab.broken() == set()


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
