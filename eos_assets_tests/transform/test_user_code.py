"""Errors of the user's function name the records and the line of code."""

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.fold_by_key import fold_by_key
from eos_assets.errors import EosError
from eos_assets.transform.user_code import own_line
from eos_assets_tests.run.lab import MakeLab, squared
from eos_assets_tests.transform.transforms import assert_nothing_written


def nothing(records: DataFrame) -> DataFrame:
    squared(records)
    return None  # type: ignore[return-value]


def misnamed(records: DataFrame) -> DataFrame:
    return records.select(f.col("valeu").alias("value"), "origin")


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


def test_the_line_of_an_error_in_a_function_of_ours_is_that_of_its_call() -> None:
    """A transform calls `fold_by_key`, and a line in there would not show the user's mistake."""
    absent = cast(Any, None)
    with pytest.raises(AttributeError) as failure:
        fold_by_key(absent, absent, absent, "value string")
    assert own_line(failure.value).startswith(f"{__file__}, line ")
