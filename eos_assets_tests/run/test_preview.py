"""Source records beside what the transform makes of them."""

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.run.preview import preview
from eos_assets_tests.run.lab import Lab, MakeLab


@pytest.mark.connect
def test_preview_shows_inputs_and_outputs_and_writes_nothing(lab: Lab) -> None:
    lab.fill(30)
    shown = preview(lab.pipeline, lab.spark, lab.connection, 5)
    assert len(shown) == 5
    for record in shown:
        assert int(record.results[0].value) == int(bytes(record.source.value)) ** 2
    for partition in range(3):
        lab.produce_transaction([b"1"] * 50, commit=False, partition=partition)
    assert preview(lab.pipeline, lab.spark, lab.connection, 5) == shown, "aborted records hide none"
    assert lab.read() == []


def test_preview_shows_a_string_that_is_not_utf8(make_lab: MakeLab) -> None:
    def quoted(records: DataFrame) -> DataFrame:
        text = f.col("value").cast("string")
        return records.select("key", text.alias("value"), f.when(f.col("key").isNull(), text).alias("error"), "origin")

    lab = make_lab(quoted, partitions=1)
    lab.produce([b"\xff1", None], key=b"k")
    lab.produce([b"\xfe2"], key=None)
    shown = preview(lab.pipeline, lab.spark, lab.connection, 5)
    results = [[(row.value, row.error) for row in record.results] for record in shown]
    assert results == [[("\ufffd1", None)], [(None, None)], [("\ufffd2", "\ufffd2")]]
