"""Results as an experiment would give them, for the parts that only read results."""

from dataclasses import replace
from typing import Any

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Cell, Result
from eos_assets.experiment.matrix import Experiment, Matrix
from eos_assets.experiment.observation import SinkObservation

CLEAN = SinkObservation(100, 100, duplicates=0, lost=0, undelivered=0, wrong=0, out_of_order=0, aborted=0)


def result(mode: Mode, kind: str = "before_commit", probability: float = 0.5, **observed: Any) -> Result:
    """One cell in which a failure struck; counts of the observation are given by name."""
    complete = observed.pop("complete", True)
    retries = observed.pop("retries", 3 if probability else 0)
    observation = replace(CLEAN, **observed)
    return Result(Cell(mode, kind, probability), observation, complete, 1, retries, 2.0, failures_due=probability > 0)


def typical(cell: Cell) -> Result:
    """What each delivery does to 100 records."""
    about = (cell.mode, cell.kind, cell.probability)
    if not cell.harmful:
        return result(*about)
    if cell.mode is Mode.AT_MOST_ONCE:
        return result(*about, lost=50, visible=50)
    if cell.mode is Mode.AT_LEAST_ONCE:
        return result(*about, duplicates=120, visible=220, out_of_order=4)
    if cell.hopeless:
        return result(*about, complete=False, visible=0, undelivered=100, aborted=240)
    return result(*about, aborted=120)


def typical_experiment() -> Experiment:
    matrix = Matrix(records=100)
    return Experiment(matrix, "sample", [typical(cell) for cell in matrix.cells()], 12.0)
