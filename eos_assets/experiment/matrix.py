"""The matrix of deliveries, kinds and probabilities of failure, and the experiment that measures every cell of it."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eos_assets.declare.modes import Mode
from eos_assets.errors import EosError
from eos_assets.experiment.cell import Cell, Result
from eos_assets.experiment.cell_runner import CellRunner
from eos_assets.experiment.faults import KINDS, Faults
from eos_assets.kafka.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: From the weakest to the strongest.
MODES = (Mode.AT_MOST_ONCE, Mode.AT_LEAST_ONCE, Mode.EXACTLY_ONCE)
PROBABILITIES = (0.0, 0.1, 0.5, 0.9, 1.0)
#: With this seed failures strike the first transaction of a partition at each of these probabilities above 0.
SEED = 32

#: Called with the number of cells that are done, and the next one.
Progress = Callable[[int, Cell], None]


@dataclass(frozen=True)
class Matrix:
    """The parameters of an experiment. Every combination of mode, kind and probability is one cell."""

    modes: tuple[Mode, ...] = MODES
    probabilities: tuple[float, ...] = PROBABILITIES
    kinds: tuple[str, ...] = KINDS
    records: int = 3000
    partitions: int = 3
    seed: int = SEED
    #: Spark jobs for each partition of a cell before it gives up.
    max_attempts: int = 40

    def __post_init__(self) -> None:
        for option in ("modes", "probabilities", "kinds"):
            values = getattr(self, option)
            if not values or len(set(values)) < len(values):
                raise EosError(
                    f"Experiment: {option}={','.join(map(str, values))} is not valid.",
                    "Give at least one value and each value once, or leave the option out to compare all of them.",
                )
        for probability in self.probabilities:
            Faults(probability)
        for kind in self.kinds:
            Faults(kind=kind)
        if self.partitions < 1 or self.records < self.partitions or self.max_attempts < 1:
            raise EosError(
                f"Experiment: records={self.records}, partitions={self.partitions}, max_attempts={self.max_attempts} "
                "is not valid.",
                "Use at least one partition, one record for each partition, and one attempt.",
            )

    def cells(self) -> Iterator[Cell]:
        """The cells, in an order in which other load on the machine affects all modes equally."""
        for kind in self.kinds:
            for probability in self.probabilities:
                for mode in self.modes:
                    yield Cell(mode, kind, probability)


#: The same comparison, smaller.
QUICK = Matrix(probabilities=(0.5, 1.0), records=400, partitions=1)


@dataclass
class Experiment:
    """A matrix and the results of its cells."""

    matrix: Matrix
    id: str
    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    def relative(self, result: Result) -> float | None:
        """The time of a cell relative to at-least-once under the same failures, or None if that was not measured."""
        cell = replace(result.cell, mode=Mode.AT_LEAST_ONCE)
        for other in self.results:
            if other.cell == cell and other.seconds:
                return result.seconds / other.seconds
        return None


def run_experiment(
    matrix: Matrix, spark: "SparkSession", connection: Connection, progress: Progress = lambda done, cell: None
) -> Experiment:
    """Measure one cell after another, each on topics of its own that are deleted afterwards."""
    started = time.monotonic()
    experiment = Experiment(matrix, uuid.uuid4().hex[:8])
    runner = CellRunner(
        spark, connection, experiment.id, matrix.records, matrix.partitions, matrix.seed, matrix.max_attempts
    )
    cells = list(matrix.cells())
    with runner.sources(len(cells) + 1):
        runner.measure(Cell(Mode.EXACTLY_ONCE, KINDS[0], 0.0), 0)  # warms up Spark for the first cell
        for done, cell in enumerate(cells):
            progress(done, cell)
            experiment.results.append(runner.measure(cell, done + 1))
    progress(len(cells), cells[-1])
    experiment.seconds = time.monotonic() - started
    return experiment
