"""The classification of results: what each delivery promises, and every anomaly that contradicts it."""

from collections.abc import Iterable, Iterator

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Result


def find_anomalies(results: Iterable[Result]) -> list[str]:
    """Find what contradicts the promise of a delivery, or shows that the comparison proves nothing."""
    return [
        f"{result.cell.mode}, {result.cell.kind}, probability {result.cell.probability:g}: {anomaly}"
        for result in results
        for anomaly in anomalies_of(result)
    ]


def anomalies_of(result: Result) -> Iterator[str]:
    """The anomalies of one cell."""
    if result.failures_due and not result.retries:
        yield "failures were due, and none struck"
    if result.observation.wrong:
        yield f"{result.observation.wrong} visible records are not squares of the source's integers"
    if result.cell.mode is Mode.EXACTLY_ONCE:
        yield from exactly_once_anomalies(result)
    elif result.cell.probability == 0:
        if not result.complete or not result.observation.exact:
            yield "without failures it did not deliver each record once"
    elif result.cell.mode is Mode.AT_LEAST_ONCE:
        yield from at_least_once_anomalies(result)
    else:
        yield from at_most_once_anomalies(result)


def exactly_once_anomalies(result: Result) -> Iterator[str]:
    observation = result.observation
    for count, anomaly in (
        (observation.duplicates, "doubled"),
        (observation.lost, "lost"),
        (observation.out_of_order, "out of order"),
    ):
        if count:
            yield f"{count} records {anomaly}"
    if result.complete and observation.undelivered:
        yield f"{observation.undelivered} records are missing, although the run reported that it is complete"
    if result.cell.hopeless and observation.visible:
        yield f"{observation.visible} records are visible, although every transaction failed before its commit"
    if result.cell.probability == 0 and not result.complete:
        yield "without failures it did not complete"


def at_least_once_anomalies(result: Result) -> Iterator[str]:
    if result.observation.lost:
        yield f"it lost {result.observation.lost} records"
    if result.cell.harmful and result.struck and not result.observation.duplicates:
        yield "failures struck before its commit, and it doubled nothing: the comparison proves nothing"


def at_most_once_anomalies(result: Result) -> Iterator[str]:
    if result.observation.duplicates:
        yield f"it doubled {result.observation.duplicates} records"
    if result.cell.harmful and result.struck and not result.observation.lost:
        yield "failures struck after it committed its offsets, and it lost nothing: the comparison proves nothing"
