"""Medians, quartiles and ratios of rounds."""

from benchmarks.spread import Spread, rates, ratios


def test_the_median_has_quartiles() -> None:
    assert Spread.of([5, 1, 3, 2, 4]) == Spread(2, 3, 4)
    assert Spread.of([5, 1, 3, 2, 4]).text(1) == "3.0 (2.0 to 4.0)"


def test_a_single_figure_has_none() -> None:
    assert Spread.of([1234.5]).text(0) == "1,234"


def test_quartiles_that_look_the_same_are_left_out() -> None:
    assert Spread(0.999, 1.0, 1.001).text() == "1.00"
    assert Spread(1, 1, 1).text() == "1.00"


def test_a_ratio_is_taken_within_a_round() -> None:
    assert ratios([1, 4], [2, 2]) == [0.5, 2]
    assert rates(100, [2, 4]) == [50, 25]
