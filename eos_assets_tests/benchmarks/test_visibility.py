"""The lag is the time from when an offset is in the log until a reader of committed data may read it."""

import pytest

from benchmarks.visibility import Sample, lags_of


def test_the_lag_of_one_transaction_falls_from_its_first_record_to_its_last() -> None:
    samples = [Sample(second, 0, 10 * second) for second in range(1, 11)] + [Sample(11, 100, 100)]
    lags = lags_of(samples)
    assert max(lags) == lags[0] == 10
    assert min(lags) == lags[-1] == 1


def test_records_that_are_visible_immediately_have_no_lag() -> None:
    assert set(lags_of([Sample(0, 0, 0), Sample(1, 50, 50), Sample(2, 99, 99)])) == {0}


def test_an_offset_that_seems_to_fall_or_to_be_beyond_the_end_does_not_matter() -> None:
    """Both offsets come from different requests."""
    assert set(lags_of([Sample(0, 5, 3), Sample(1, 4, 5), Sample(2, 6, 6)])) == {0}


@pytest.mark.parametrize("samples", [[Sample(0, 0, 0)], [Sample(0, 0, 7)]])
def test_a_partition_without_committed_records_has_none(samples: list[Sample]) -> None:
    assert lags_of(samples) == []
