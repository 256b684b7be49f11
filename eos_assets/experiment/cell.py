"""One cell of the experiment's matrix, and its result."""

from dataclasses import asdict, dataclass
from typing import Any

from eos_assets.declare.modes import Mode
from eos_assets.experiment.observation import SinkObservation


@dataclass(frozen=True)
class Cell:
    """A delivery mode under one kind and probability of failure."""

    mode: Mode
    kind: str
    probability: float

    @property
    def hopeless(self) -> bool:
        """Whether the position can never advance. At most once, it advances before anything is produced."""
        return self.probability == 1 and self.kind != "after_commit" and self.mode is not Mode.AT_MOST_ONCE

    @property
    def harmful(self) -> bool:
        """Whether failures of this kind strike between the two steps of a baseline delivery."""
        return self.probability > 0 and self.kind != "after_commit"


@dataclass(frozen=True)
class Result:
    """The result of one cell. `jobs` are Spark jobs, `retries` are tasks that failed and ran again."""

    cell: Cell
    observation: SinkObservation
    complete: bool
    jobs: int
    retries: int
    seconds: float
    #: Whether the first transaction of some partition was due to fail: then there must be retries.
    failures_due: bool

    @property
    def struck(self) -> bool:
        """Whether a failure struck this cell, or was due to."""
        return self.failures_due or self.retries > 0

    def row(self) -> dict[str, Any]:
        """The result as plain data, for JSON."""
        outcome = "complete" if self.complete else "gave up"
        counts = {"outcome": outcome, "jobs": self.jobs, "retries": self.retries, "seconds": round(self.seconds, 3)}
        return {**asdict(self.cell), "mode": str(self.cell.mode), **counts, **asdict(self.observation)}
