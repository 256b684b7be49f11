"""Options out of range are refused where they are declared."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from eos_assets.declare.options import Batching, Unique
from eos_assets.declare.pipeline import pipeline
from eos_assets.errors import EosError


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda: Batching(timeout_ms=10), "timeout_ms=10"),
        (lambda: Batching(records=0), "records=0"),
        (lambda: Batching(bytes=0), "bytes=0"),
        (lambda: Unique("key", within=0), "within=0"),
    ],
)
def test_an_option_out_of_range_is_refused(declare: Callable[[], object], problem: str) -> None:
    with pytest.raises(EosError, match=rf"\({problem}\) is not valid"):
        declare()


@pytest.mark.parametrize("declared", [59, timedelta(seconds=59), -1, float("nan"), 1e300, True, "15 min"])
def test_a_time_that_dagster_would_not_accept_is_refused(declared: Any) -> None:
    with pytest.raises(EosError, match=r"fresh_within=.* is not valid") as error:
        pipeline(source="orders", sink="sales", name="shop", fresh_within=declared)(lambda records: records)
    assert "timedelta(minutes=15)" in error.value.remedy


def test_a_time_is_a_timedelta_or_a_number_of_seconds() -> None:
    for declared in (60, 60.0, timedelta(minutes=1)):
        shop = pipeline(source="orders", sink="sales", name="shop", fresh_within=declared)(lambda records: records)
        assert shop.freshness == timedelta(minutes=1)
