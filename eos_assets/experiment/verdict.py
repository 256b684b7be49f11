"""Results in, every sentence of the comparison that does not hold out. A pure function, and it must be able to fail."""

from collections.abc import Iterable, Iterator

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Result


def problems(results: Iterable[Result]) -> list[str]:
    """What contradicts the promise of a mode, or shows that the comparison proves nothing. Empty: all is well."""
    return [
        f"{result.cell.mode}, {result.cell.kind}, probability {result.cell.probability:g}: {found}"
        for result in results
        for found in wrong_with(result)
    ]


def wrong_with(result: Result) -> Iterator[str]:
    cell, account = result.cell, result.account
    if result.failures_due and not result.retries:
        yield "failures were due, and none struck"
    if account.wrong:
        yield f"{account.wrong} visible records are no squares of the source's integers"
    if cell.mode is Mode.EXACTLY_ONCE:
        yield from not_exactly_once(result)
    elif cell.probability == 0:
        if not result.complete or not account.exact:
            yield "without failures it did not bring each record once"
    elif cell.mode is Mode.AT_LEAST_ONCE:
        if account.lost:
            yield f"it lost {account.lost} records"
        if cell.harmful and struck(result) and not account.duplicates:
            yield "failures struck before its commit, and it doubled nothing: the comparison proves nothing"
    else:
        if account.duplicates:
            yield f"it doubled {account.duplicates} records"
        if cell.harmful and struck(result) and not account.lost:
            yield "failures struck behind its offsets, and it lost nothing: the comparison proves nothing"


def not_exactly_once(result: Result) -> Iterator[str]:
    account = result.account
    for count, told in (
        (account.duplicates, "doubled"),
        (account.lost, "lost"),
        (account.out_of_order, "out of order"),
    ):
        if count:
            yield f"{count} records {told}"
    if result.complete and account.undelivered:
        yield f"{account.undelivered} records are not there, although the run says that it is complete"
    if result.cell.hopeless and account.visible:
        yield f"{account.visible} records are visible, although every transaction failed before its commit"
    if result.cell.probability == 0 and not result.complete:
        yield "without failures it did not come to its end"


def struck(result: Result) -> bool:
    return result.failures_due or result.retries > 0
