"""The picture of the throughput: a group of bars for each workload, with the quartiles as error bars."""

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contenders import DESCRIPTIONS, OURS
from benchmarks.results import WorkloadResult
from benchmarks.spread import Spread
from benchmarks.tables import speeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Of Okabe and Ito, which people with any colour vision can distinguish.
OWN_COLOUR, PEER_COLOUR = "#0072b2", "#a0a8b4"
INCHES_PER_BAR, WIDTH_INCHES = 0.32, 9
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def write_chart(workloads: dict[str, WorkloadResult], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    bars = sum(len(result.series) + 2 for result in workloads.values())
    # Text stays text, and equal results give equal pictures.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "eos"}):
        figure = Figure((WIDTH_INCHES, INCHES_PER_BAR * bars), layout="constrained")
        heights = [len(result.series) for result in workloads.values()]
        grid = figure.subplots(len(workloads), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
        for axes, result in zip(grid[:, 0], workloads.values(), strict=True):
            draw(axes, result)
        figure.savefig(path, format="svg", metadata=NO_METADATA, facecolor="white")


def draw(axes: "Axes", result: WorkloadResult) -> None:
    """The bars of one workload, the fastest at the top."""
    spreads = {name: Spread.of(speeds(series)) for name, series in result.series.items()}
    names = sorted(spreads, key=lambda name: spreads[name].median)
    medians = [spreads[name].median for name in names]
    errors = [
        [spreads[name].median - spreads[name].low for name in names],
        [spreads[name].high - spreads[name].median for name in names],
    ]
    colours = [OWN_COLOUR if name in OURS else PEER_COLOUR for name in names]
    axes.barh([DESCRIPTIONS[name].title for name in names], medians, xerr=errors, color=colours, capsize=2)
    axes.set_title(f"{result.title}: records per second", loc="left", fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
