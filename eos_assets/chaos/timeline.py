"""The chart of a soak: faults, commits, lag and memory over one axis of time."""

import io
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from eos_assets.chaos.fault_plan import KINDS
from eos_assets.chaos.result import SoakResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colours of Okabe and Ito, which people with any colour vision can distinguish, and a grey.
COLOURS = ("#d55e00", "#e69f00", "#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#5a6474")
SIZE_INCHES = (12, 10)
HEIGHT_RATIOS = (1.4, 1.2, 1.2, 1.2)
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
#: A fault that is over at once is drawn this many seconds wide, at least.
LEAST_WIDTH = 0.4
MEGABYTE = 1 << 20


def draw_svg(result: SoakResult) -> str:
    """Draw a soak as an SVG element that needs no other file."""
    import matplotlib

    content = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "eos"}):  # text stays text
        draw(result).savefig(content, format="svg", metadata=NO_METADATA)
    document = content.getvalue()
    return document[document.index("<svg") :]


def draw(result: SoakResult) -> "Figure":
    """Draw four panels, one below the other; each fault shades all of them."""
    from matplotlib.figure import Figure

    figure = Figure(SIZE_INCHES, layout="constrained")
    faults, commits, lag, memory = figure.subplots(4, 1, sharex=True, gridspec_kw={"height_ratios": HEIGHT_RATIOS})
    draw_faults(faults, result)
    draw_commits(commits, result)
    draw_lag(lag, result)
    draw_memory(memory, result)
    for axes in (faults, commits, lag, memory):
        axes.axvline(result.loaded_at, color="#5a6474", linestyle=":", linewidth=1)
        axes.spines[:].set_color("#cfd5de")
        axes.tick_params(length=0)
    for axes in (commits, lag, memory):
        axes.set_ylim(bottom=0)
        for fault in result.faults:
            if fault.struck:
                axes.axvspan(*span(fault.began, fault.ended), color=colour(fault.planned.kind), alpha=0.15, linewidth=0)
    memory.set_xlim(0, max(result.seconds, 1))
    memory.set_xlabel("seconds since the start; dotted: loading ended")
    return figure


def span(began: float, ended: float) -> tuple[float, float]:
    return began, max(ended, began + LEAST_WIDTH)


def colour(kind: str) -> str:
    return COLOURS[list(KINDS).index(kind) % len(COLOURS)]


def draw_faults(axes: "Axes", result: SoakResult) -> None:
    """Draw a row for each kind of fault; a fault that had no effect is hollow."""
    kinds = list(result.options.kinds)
    for fault in result.faults:
        began, ended = span(fault.began, fault.ended)
        shade = colour(fault.planned.kind)
        row = kinds.index(fault.planned.kind)
        axes.barh(row, ended - began, 0.6, began, facecolor=shade if fault.struck else "none", edgecolor=shade)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.invert_yaxis()
    axes.set_title("faults", loc="left")


def draw_commits(axes: "Axes", result: SoakResult) -> None:
    """Draw the transactions that were committed in each second."""
    edges = np.arange(0, max(result.seconds, 1) + 1)
    counts, _ = np.histogram(result.commits, edges)
    axes.bar(edges[:-1], counts, 1, align="edge", color="#009e73")
    axes.set_title("transactions committed per second", loc="left")


def draw_lag(axes: "Axes", result: SoakResult) -> None:
    """Draw the source records that are not committed yet."""
    times = [sample.time for sample in result.progress]
    axes.plot(times, [sample.lag for sample in result.progress], color="#0072b2")
    axes.set_title("lag, in records", loc="left")


def draw_memory(axes: "Axes", result: SoakResult) -> None:
    """Draw the memory of each role."""
    roles: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for sample in result.memory_samples:
        roles[sample.role].append((sample.time, sample.bytes / MEGABYTE))
    for number, (role, points) in enumerate(roles.items()):
        axes.plot(*zip(*points, strict=True), label=role, color=COLOURS[number % len(COLOURS)])
    if roles:
        axes.legend(loc="upper left", ncols=len(roles), frameon=False)
    axes.set_title("memory, in MiB", loc="left")
