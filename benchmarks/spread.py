"""The statistics of repeated measurements: medians with quartiles, and ratios within a round."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median and the quartiles of some figures."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        if len(figures) == 1:
            return cls(figures[0], figures[0], figures[0])
        return cls(*statistics.quantiles(figures, n=4, method="inclusive"))

    def text(self, decimals: int = 2) -> str:
        low, median, high = (f"{figure:,.{decimals}f}" for figure in (self.low, self.median, self.high))
        return median if low == high else f"{median} ({low} to {high})"


def rates(records: int, seconds: Sequence[float]) -> list[float]:
    """Records per second."""
    return [records / took for took in seconds]


def ratios(figures: Sequence[float], others: Sequence[float]) -> list[float]:
    """Each figure in relation to that of another contender in the same round: a machine that is slow for a minute slows
    both."""
    return [own / other for own, other in zip(figures, others, strict=True)]
