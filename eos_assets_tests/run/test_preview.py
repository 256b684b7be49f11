"""Source records beside what the transform makes of them."""

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.kafka.offsets import bounds
from eos_assets.run.preview import preview, share
from eos_assets_tests.run.lab import Lab, MakeLab
from eos_assets_tests.waiting import wait_for


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


def test_a_preview_shows_the_last_records_of_each_partition(lab: Lab) -> None:
    for partition, count in enumerate((40, 3, 20)):
        lab.produce_transaction([b"1"] * count, commit=True, partition=partition)
    wait_for(lambda: all(each.stable == each.high for each in bounds(lab.connection, lab.source).values()))
    origins = [record.source.origin for record in preview(lab.pipeline, lab.spark, lab.connection, 10)]
    places = [(origin.partition, origin.offset) for origin in origins]
    assert places == [(0, 36), (0, 37), (0, 38), (0, 39), (1, 0), (1, 1), (1, 2), (2, 17), (2, 18), (2, 19)]


def test_the_records_of_a_preview_are_shared_among_partitions() -> None:
    assert share(10, {0: 10, 1: 2, 2: 10}) == {0: 4, 1: 2, 2: 4}
    assert share(2, {0: 10, 1: 10, 2: 10}) == {0: 1, 1: 1, 2: 0}
    assert share(9, {0: 1, 1: 0}) == {0: 1, 1: 0}
    assert share(5, {}) == {}


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
