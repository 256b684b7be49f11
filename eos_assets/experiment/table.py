"""An experiment in, its tables as plain text cells and as markdown out: one row a mode, one row a cell."""

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
    """One row per mode, over all its cells. Times are medians relative to at-least-once under the same failures."""
    lines: list[tuple[str, ...]] = []
    for mode in experiment.matrix.modes:
        results = [r for r in experiment.results if r.cell.mode is mode]
        lines.append(
            (
                MODE_NAMES[mode],
                f"{len(results)}",
                f"{sum(r.account.duplicates for r in results):,}",
                f"{sum(r.account.lost for r in results):,}",
                f"{sum(r.account.aborted for r in results):,}",
                f"{sum(r.retries for r in results):,}",
                typical(experiment, [r for r in results if r.cell.probability == 0]),
                typical(experiment, [r for r in results if r.cell.probability > 0 and r.complete]),
            )
        )
    return lines


def typical(experiment: Experiment, results: Iterable[Result]) -> str:
    found = [ratio for result in results if (ratio := experiment.relative(result)) is not None]
    return f"× {median(found):.2f}" if found else "–"


def rows(experiment: Experiment) -> list[tuple[str, ...]]:
    """One row per cell."""
    return [row(result, experiment.relative(result)) for result in experiment.results]


def row(result: Result, ratio: float | None) -> tuple[str, ...]:
    cell, account = result.cell, result.account
    counts = (account.visible, account.duplicates, account.lost, account.undelivered, account.out_of_order)
    return (
        KIND_NAMES[cell.kind],
        f"{cell.probability:g}",
        MODE_NAMES[cell.mode],
        "complete" if result.complete else "gave up",
        *(f"{count:,}" for count in counts),
        f"{account.aborted:,}",
        f"{result.jobs}",
        f"{result.retries}",
        f"{result.seconds:.1f}",
        "–" if ratio is None else f"{ratio:.2f}",
    )


def markdown(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines)])


def headline(experiment: Experiment) -> str:
    """What the experiment found, in one sentence."""
    told = []
    for mode in experiment.matrix.modes:
        accounts = [r.account for r in experiment.results if r.cell.mode is mode]
        doubled, lost = sum(a.duplicates for a in accounts), sum(a.lost for a in accounts)
        said = [f"doubled {doubled:,}"] * bool(doubled) + [f"lost {lost:,}"] * bool(lost)
        told.append(f"{MODE_NAMES[mode]} {' and '.join(said) or 'lost none and doubled none'}")
    sentence = "; ".join(told)
    return f"{sentence[:1].upper()}{sentence[1:]}."
