"""The tables of the experiment: a row for each delivery mode, and a row for each cell."""

from collections.abc import Iterable, Sequence
from statistics import median

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Result
from eos_assets.experiment.matrix import Experiment

MODE_NAMES = {
    Mode.AT_MOST_ONCE: "at most once",
    Mode.AT_LEAST_ONCE: "at least once",
    Mode.EXACTLY_ONCE: "exactly once",
}
KIND_NAMES = {"before_commit": "before commit", "after_commit": "after commit", "kill": "hard kill"}

SUMMARY_COLUMNS = (
    "delivery",
    "cells",
    "doubled",
    "lost",
    "aborted, never visible",
    "retries",
    "time without failures",
    "time with failures",
)
COLUMNS = (
    "failure",
    "probability",
    "delivery",
    "outcome",
    "visible",
    "doubled",
    "lost",
    "not delivered",
    "out of order",
    "aborted",
    "jobs",
    "retries",
    "seconds",
    "× at least once",
)


def summary(experiment: Experiment) -> list[tuple[str, ...]]:
    """One row per mode, over all its cells. Times are medians, relative to at-least-once under the same failures."""
    lines: list[tuple[str, ...]] = []
    for mode in experiment.matrix.modes:
        results = [r for r in experiment.results if r.cell.mode is mode]
        lines.append(
            (
                MODE_NAMES[mode],
                f"{len(results)}",
                f"{sum(r.observation.duplicates for r in results):,}",
                f"{sum(r.observation.lost for r in results):,}",
                f"{sum(r.observation.aborted for r in results):,}",
                f"{sum(r.retries for r in results):,}",
                median_ratio(experiment, [r for r in results if r.cell.probability == 0]),
                median_ratio(experiment, [r for r in results if r.cell.probability > 0 and r.complete]),
            )
        )
    return lines


def median_ratio(experiment: Experiment, results: Iterable[Result]) -> str:
    ratios = [ratio for result in results if (ratio := experiment.relative(result)) is not None]
    return f"× {median(ratios):.2f}" if ratios else "–"


def rows(experiment: Experiment) -> list[tuple[str, ...]]:
    """One row per cell."""
    return [row(result, experiment.relative(result)) for result in experiment.results]


def row(result: Result, ratio: float | None) -> tuple[str, ...]:
    cell, observation = result.cell, result.observation
    counts = (
        observation.visible,
        observation.duplicates,
        observation.lost,
        observation.undelivered,
        observation.out_of_order,
        observation.aborted,
    )
    return (
        KIND_NAMES[cell.kind],
        f"{cell.probability:g}",
        MODE_NAMES[cell.mode],
        "complete" if result.complete else "gave up",
        *(f"{count:,}" for count in counts),
        f"{result.jobs}",
        f"{result.retries}",
        f"{result.seconds:.1f}",
        "–" if ratio is None else f"{ratio:.2f}",
    )


def markdown(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines)])


def headline(experiment: Experiment) -> str:
    """The result of the experiment in one sentence."""
    parts = []
    for mode in experiment.matrix.modes:
        observations = [r.observation for r in experiment.results if r.cell.mode is mode]
        doubled, lost = sum(o.duplicates for o in observations), sum(o.lost for o in observations)
        harm = [f"doubled {doubled:,}"] * bool(doubled) + [f"lost {lost:,}"] * bool(lost)
        parts.append(f"{MODE_NAMES[mode]} {' and '.join(harm) or 'lost none and doubled none'}")
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."
