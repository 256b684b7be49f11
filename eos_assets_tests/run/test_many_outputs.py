"""Several outputs of one source record: their order, and that no transaction splits them."""

import re

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.options import Batching
from eos_assets_tests.run.lab import MakeLab


@pytest.mark.connect
def test_one_record_gives_many_in_order(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        parts = f.posexplode(f.split(f.col("value").cast("string"), ",")).alias("sequence", "value")
        return records.select("key", parts, "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"a,b,c"], key=b"k")
    lab.produce([b"d"], key=b"k")
    report = lab.run()
    assert lab.values() == [b"a", b"b", b"c", b"d"]
    assert (report.summary()[0].records_in, report.summary()[0].records_out) == (2, 4)
    assert lab.broken() == set()


def test_outputs_are_in_the_order_of_their_sequence(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        parts = f.posexplode(f.split(f.col("value").cast("string"), ",")).alias("place", "value")
        return records.select("key", parts, "origin").select(
            "key", "value", (9 - f.col("place")).alias("sequence"), "origin"
        )

    lab = make_lab(spread, partitions=1)
    lab.produce([b"a,b,c", b"d"], key=b"k")
    assert lab.run().complete
    assert lab.values() == [b"c", b"b", b"a", b"d"]
    assert lab.broken() == set()
    lab.produce([b"e,f"], key=b"k")
    for number, problem in (
        (f.lit(7), "two outputs of source offset 2 .* have the sequence 7"),
        (f.lit(None).cast("int"), "has no sequence"),
    ):
        wrong = lab.with_(transform=lambda r, number=number: spread(r).withColumn("sequence", number))
        (outcome,) = wrong.run().outcomes
        assert outcome.outcome == "failed"
        assert re.search(problem, outcome.reason)
    assert len(lab.values()) == 4


def test_a_row_that_is_not_an_output_needs_no_sequence(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        parts = f.when(text != "", f.split(text, ","))
        rows = records.select("key", f.posexplode_outer(parts).alias("sequence", "value"), "origin")
        nothing = f.col("value").isNull()
        letter = f.when(nothing & f.col("key").isNull(), f.lit("no value and no key"))
        dash = f.coalesce(f.col("value") == "-", f.lit(False))
        skip = dash | (nothing & f.col("key").isNotNull())
        number = f.when(~dash, f.col("sequence")).alias("sequence")
        return rows.select("key", "value", number, skip.alias("skip"), letter.alias("error"), "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"a,-,b,-", b"", b"c"], key=b"k")
    lab.produce([b""], key=None)
    report = lab.run()
    assert report.complete, report.summary()
    assert lab.values() == [b"a", b"b", b"c"]
    assert (report.entries[0].skipped, report.entries[0].dead) == (2, 1)
    assert lab.broken() == set()


def test_the_outputs_of_one_record_are_never_split(make_lab: MakeLab) -> None:
    """More outputs than a transaction batch and an Arrow batch hold."""

    def spread(records: DataFrame) -> DataFrame:
        numbers = f.sequence(f.lit(1), f.lit(60_000)).cast("array<string>")
        return records.select("key", f.explode(numbers).alias("value"), "origin")

    lab = make_lab(spread, partitions=1, batching=Batching(records=1))
    lab.produce([b"1", b"2", b"3"])
    report = lab.run()
    assert [entry.records_in for entry in report.entries] == [1, 1, 1]
    assert [entry.records_out for entry in report.entries] == [60_000] * 3
    for partition in {message.partition() for message in lab.read()}:
        values = [int(m.value() or 0) for m in lab.read() if m.partition() == partition]
        assert values == list(range(1, 60_001)) * (len(values) // 60_000)
    assert lab.broken() == set()


def test_a_wide_record_that_is_skipped_is_counted_once(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        numbers = f.sequence(f.lit(1), f.lit(60_000)).cast("array<string>")
        return records.select("key", f.explode(numbers).alias("value"), f.lit(True).alias("skip"), "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"1", b"2"])
    report = lab.run()
    assert report.complete
    assert sum(entry.skipped for entry in report.entries) == 2
    assert lab.broken() == set()


def test_a_million_outputs_are_enough_for_one_transaction(make_lab: MakeLab) -> None:
    def spread(records: DataFrame) -> DataFrame:
        numbers = f.sequence(f.lit(1), f.lit(4_000)).cast("array<string>")
        return records.select(f.explode(numbers).alias("value"), "origin")

    lab = make_lab(spread, partitions=1)
    lab.produce([b"%d" % n for n in range(300)])
    outputs = [entry.records_out for entry in lab.run().entries]
    assert sum(outputs) == 1_200_000
    assert 1_000_000 <= outputs[0] < 1_050_000
