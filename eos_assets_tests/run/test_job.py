"""One job: the partitions that give no row, and those of a task that fails."""

import random
import uuid

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.run.messages import collect_messages


@pytest.mark.parametrize("kept", [0, 1])
def test_a_partition_whose_rows_are_all_filtered_is_committed(make_lab: MakeLab, kept: int) -> None:
    """F28: its task gets no row and cannot know its partition."""

    def few(records: DataFrame) -> DataFrame:
        return records.where(f"origin.partition = 0 and origin.offset < {kept}").select("key", "value", "origin")

    lab = make_lab(few, drops=True)
    lab.fill(300)
    assert lab.run().complete
    assert lab.lag() == 0
    assert len(lab.read()) == kept
    assert lab.broken() == set()


def test_a_job_with_a_failed_task_commits_no_empty_partition(make_lab: MakeLab, spark: SparkSession) -> None:
    """It may have had rows of any of them: those from which no row came are committed only if every task is done."""
    names = spark.createDataFrame([("x", "nobody")], "number string, name string")

    def named(records: DataFrame) -> DataFrame:
        joined = records.join(names, f.col("value").cast("string") == f.col("number"), "full")
        return joined.where("name is not null").select("key", f.col("name").alias("value"), "origin")

    lab = make_lab(named, drops=True)
    lab.fill(90)
    with pytest.raises(EosError, match="returned a row without an origin"):
        lab.run()
    assert lab.lag() == 90
    assert lab.read(lab.pipeline.names().ledger, "read_uncommitted") == []


def test_an_empty_source_and_empty_partitions_are_complete(make_lab: MakeLab) -> None:
    lab = make_lab()
    report = lab.run()
    assert report.complete
    assert report.summary() == []
    assert "nothing was committed before" in str(report)
    lab.produce([b"1", b"2"], partition=1)
    assert lab.run(run_id="first-run-of-them").complete
    lab.assert_squares([1, 2])
    again = lab.run()
    assert again.complete
    assert again.entries == [], "nothing new to do is a success that writes nothing"
    assert f"nothing new; everything up to {lab.source}/1@2 was committed by run first-ru at " in str(again)


def test_records_of_a_megabyte_go_through(make_lab: MakeLab) -> None:
    name = f"megabytes-{uuid.uuid4().hex[:8]}"
    lab = make_lab(
        lambda records: records.select("key", "value", "origin"),
        source=Topic(f"{name}-in", partitions=1, max_message_bytes=5_000_000),
        sink=[Topic(f"{name}-out", partitions=1, max_message_bytes=5_000_000)],
    )
    payloads = [bytes([65 + n]) * 1_200_000 for n in range(12)]
    lab.produce(payloads, key=b"k")
    assert lab.run().complete
    assert lab.values() == payloads
    assert lab.broken() == set()


def test_a_sink_that_takes_small_batches_gets_small_ones(make_lab: MakeLab) -> None:
    """Each record fits; librdkafka's batches of a megabyte would not, and random bytes do not get smaller."""
    name = f"small-{uuid.uuid4().hex[:8]}"
    lab = make_lab(
        lambda records: records.select("value", "origin"),
        partitions=1,
        sink=[Topic(name, partitions=1, max_message_bytes=100_000)],
    )
    payloads = [random.Random(n).randbytes(1000) for n in range(500)]
    lab.produce(payloads)
    report = lab.run()
    assert report.complete, report.summary()
    assert lab.values() == payloads
    assert lab.broken() == set()


def test_a_run_reports_once_that_headers_and_timestamps_are_slow(make_lab: MakeLab) -> None:
    """`withColumn` keeps them without a word in the code."""
    lab = make_lab(lambda records: records.withColumn("value", f.lit("1")), partitions=2)
    lab.fill(20)
    with collect_messages() as messages:
        assert lab.run(Faults(failpoint="before_commit")).complete
    (slow,) = [text for text in messages if "one by one" in text]
    assert "headers, timestamp" in slow
    assert "eos.output()" in slow
