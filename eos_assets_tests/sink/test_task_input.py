"""An incomplete range is never committed as a whole one, wherever Spark's side of a task fails."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets.sink.task import InputIncomplete, read_to_end, task_input
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.waiting import wait_for

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
OUTPUTS = "key string, value string, origin struct<partition:int,offset:bigint,ordinal:bigint>"


def report_end(file: Path) -> Task:
    """A task that writes to a file how its rows ended."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_to_end(batches, task_input())
        try:
            count = sum(batch.num_rows for batch in rows)
        except InputIncomplete:
            file.write_text("incomplete")
            raise
        file.write_text(f"{count} rows")
        yield pa.record_batch({"n": [count]})

    return task


@pytest.mark.connect
def test_spark_4_2_marks_the_end_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    """There is no mark if its own side of the task failed."""
    assert spark.version.startswith("4.2.")
    rows = spark.range(0, 50_000, 1, 1)
    assert rows.mapInArrow(report_end(tmp_path / "whole"), "n long").collect()[0].n == 50_000
    assert (tmp_path / "whole").read_text() == "50000 rows"
    failing = rows.selectExpr("CASE WHEN id = 45000 THEN raise_error('on purpose') ELSE id END AS id")
    with pytest.raises(Exception, match="on purpose"):
        failing.mapInArrow(report_end(tmp_path / "broken"), "n long").collect()
    broken = tmp_path / "broken"  # Spark does not wait for the worker
    assert wait_for(lambda: broken.exists() and broken.read_text()) == "incomplete"


def even(records: DataFrame) -> DataFrame:
    return records.where("length(value) > 100 or cast(cast(value as string) as int) % 2 = 0").select(
        "key", "value", "origin"
    )


@pytest.mark.connect
def test_a_large_record_after_many_small_ones_loses_none_of_them(make_lab: MakeLab) -> None:
    """It ends the job with unmeasured Arrow batches by an error on Spark's side, and the job runs again."""
    lab = make_lab(even, partitions=1, drops=True)
    values = [b"%d" % number for number in range(40_000)]
    values[35_000] = b"y" * 10_000
    lab.produce(values)
    assert lab.run().complete
    assert sorted(map(bytes, filter(None, lab.values()))) == sorted(values[::2])


def test_a_transform_that_raises_late_commits_nothing_of_an_incomplete_batch(make_lab: MakeLab) -> None:
    def late(records: DataFrame) -> DataFrame:
        number = f.col("value").cast("string").try_cast("int")
        return even(records).where(f.when(number == 35_000, f.raise_error(f.lit("on purpose"))).otherwise(True))

    lab = make_lab(late, partitions=1, drops=True)
    lab.produce(b"%d" % number for number in range(40_000))
    with pytest.raises(EosError, match="on purpose"):
        lab.run()
    assert lab.lag() == 40_000
    assert not lab.values()


def fail_once(flag: Path) -> Task:
    """Many outputs of each record; in the middle of those of the last one it fails, once."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value, origin in zip(batch["value"].to_pylist(), batch["origin"], strict=True):
                for low in range(0, 40_000, 10_000):
                    if value == b"last" and low == 30_000 and not flag.exists():
                        flag.touch()
                        raise KeyError("on purpose")
                    numbers = pa.array(np.arange(low, low + 10_000)).cast(pa.string())
                    origins = pa.array([origin.as_py()] * 10_000, batch["origin"].type)
                    yield pa.record_batch([numbers, numbers, origins], names=["key", "value", "origin"])

    return task


def test_the_outputs_of_one_record_are_not_torn_where_the_transform_fails(make_lab: MakeLab, tmp_path: Path) -> None:
    task = fail_once(tmp_path / "flag")
    lab = make_lab(lambda records: records.select("value", "origin").mapInArrow(task, OUTPUTS), partitions=1)
    lab.produce([b"one", b"last"])
    assert lab.run().complete  # Spark tries the task again
    assert (tmp_path / "flag").exists()
    assert len(lab.read()) == 80_000
    assert lab.broken() == set()
