"""Lets contenders take turns: in rounds, each of which begins with another one, after rounds that only warm up."""

import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from benchmarks.stage import Measurement


def order_of(names: Sequence[str], number: int) -> list[str]:
    """The order of a round: no contender always runs after the same one first."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


def seconds_left(taken: Mapping[str, Sequence[float]], ahead: Sequence[str]) -> float | None:
    """How long the runs that are ahead will take, if each takes as long as on average before; None without any run."""
    known = {name: sum(seconds) / len(seconds) for name, seconds in taken.items() if seconds}
    if not known:
        return None
    average = sum(known.values()) / len(known)
    return sum(known.get(name, average) for name in ahead)


def left_text(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def take_turns(
    title: str,
    names: Sequence[str],
    run: Callable[[str], Measurement],
    *,
    warm_ups: int,
    rounds: int,
    console: Console,
) -> dict[str, list[Measurement]]:
    """Run all contenders in each round, and return their measurements without those of the warm-ups."""
    total = warm_ups + rounds
    orders = [order_of(names, number) for number in range(total)]
    measured: dict[str, list[Measurement]] = {name: [] for name in names}
    taken: dict[str, list[float]] = {name: [] for name in names}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(title, total=total * len(names), left="")
        for number, order in enumerate(orders):
            place = f"round {number + 1 - warm_ups} of {rounds}" if number >= warm_ups else "warm-up"
            for turn, name in enumerate(order):
                progress.update(bar, description=f"{title}: {place}: {name}")
                started = time.monotonic()
                measurement = run(name)
                taken[name].append(time.monotonic() - started)
                if number >= warm_ups:
                    measured[name].append(measurement)
                ahead = [*order[turn + 1 :], *(each for later in orders[number + 1 :] for each in later)]
                left = left_text(seconds_left(taken, ahead))
                progress.update(bar, advance=1, left=left)
                console.print(f"{title}: {place}: {name}: {measurement.seconds:.2f} s, verified ({left})", style="dim")
    return measured
