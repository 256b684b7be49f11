"""The charts of the experiment: what became of the records, the time it took, what was written and aborted."""

import io
from typing import TYPE_CHECKING

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Result
from eos_assets.experiment.matrix import Experiment
from eos_assets.experiment.table import KIND_NAMES, MODE_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colours of Okabe and Ito, which people with any colour vision can distinguish.
COLOURS = {Mode.AT_MOST_ONCE: "#d55e00", Mode.AT_LEAST_ONCE: "#0072b2", Mode.EXACTLY_ONCE: "#009e73"}
GREY = "#5a6474"
HATCH = "////"
SIZE_INCHES = (12, 9)
HEIGHT_RATIOS = (3, 1.5, 1.1)
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
#: Percentages are linear up to this one and logarithmic above: 5 % lost and 1000 % doubled fit on one axis.
LINEAR_PERCENT = 10
PERCENT_TICKS, TIME_TICKS = (-100, -10, 0, 10, 100, 1000), (0.25, 0.5, 1, 2, 4)


def draw_svg(experiment: Experiment) -> str:
    """Draw an experiment as an SVG element that needs no other file."""
    import matplotlib

    content = io.StringIO()
    # Text stays text, and equal experiments give equal drawings.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "eos", "hatch.linewidth": 1.5}):
        draw(experiment).savefig(content, format="svg", metadata=NO_METADATA)
    document = content.getvalue()
    return document[document.index("<svg") :]


def draw(experiment: Experiment) -> "Figure":
    """Draw a column for each kind of failure, with a group of bars for each probability."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    matrix = experiment.matrix
    figure = Figure(SIZE_INCHES, layout="constrained")
    grid = figure.subplots(
        3, len(matrix.kinds), sharex=True, sharey="row", squeeze=False, gridspec_kw={"height_ratios": HEIGHT_RATIOS}
    )
    for kind, (deliveries, times, aborted) in zip(matrix.kinds, grid.T, strict=True):
        results = [result for result in experiment.results if result.cell.kind == kind]
        draw_deliveries(Bars(deliveries, experiment), results)
        draw_times(Bars(times, experiment), results)
        draw_aborted(Bars(aborted, experiment), results)
        deliveries.set_title(f"failure: {KIND_NAMES[kind]}")
        aborted.set_xlabel("probability of failure")
    grid[0, 0].set_ylabel("← lost | doubled →")
    grid[1, 0].set_ylabel("time, relative to\nat least once")
    grid[2, 0].set_ylabel("aborted")
    handles = [Patch(color=COLOURS[mode], label=MODE_NAMES[mode]) for mode in matrix.modes]
    handles.append(Patch(facecolor="none", edgecolor=GREY, hatch=HATCH, label="gave up: not delivered yet, not lost"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.suptitle(
        f"The same failures, three deliveries: {matrix.records:,} records in {matrix.partitions} partitions for each "
        f"cell, seed {matrix.seed}"
    )
    return figure


class Bars:
    """The bars of one panel: a group for each probability, in it one for each mode."""

    def __init__(self, axes: "Axes", experiment: Experiment) -> None:
        self.axes = axes
        self.experiment = experiment
        self.width = 0.8 / len(experiment.matrix.modes)
        probabilities = experiment.matrix.probabilities
        axes.set_xticks(range(len(probabilities)), [f"{probability:g}" for probability in probabilities])
        axes.tick_params(length=0)
        axes.grid(axis="y", color="#e4e8ee")
        axes.set_axisbelow(True)
        axes.spines[:].set_color("#cfd5de")

    def position(self, result: Result) -> float:
        """The middle of a cell's bar."""
        modes = self.experiment.matrix.modes
        group = self.experiment.matrix.probabilities.index(result.cell.probability)
        return group + (modes.index(result.cell.mode) - (len(modes) - 1) / 2) * self.width

    def add(self, result: Result, height: float, bottom: float = 0.0, *, hatched: bool = False) -> None:
        """Draw a bar. One without height is a dot, so that "nothing happened" is visible, too."""
        x, colour = self.position(result), COLOURS[result.cell.mode]
        if not height:
            self.axes.plot([x], [bottom], marker="o", color=colour, clip_on=False, zorder=3)
            return
        self.axes.bar(
            x,
            height,
            self.width * 0.9,
            bottom,
            facecolor="none" if hatched else colour,
            edgecolor=colour,
            hatch=HATCH if hatched else None,
        )

    def scale_percent(self, low: float, high: float, zero: str) -> None:
        """Scale the axis for percentages of the records; `zero` is the label of the line at 0."""
        self.axes.set_yscale("asinh", linear_width=LINEAR_PERCENT)
        self.axes.set_ylim(low, high)
        ticks = [tick for tick in PERCENT_TICKS if low <= tick <= high]
        self.axes.set_yticks(ticks, [f"{tick} %" if tick else zero for tick in ticks])
        self.axes.minorticks_off()
        self.axes.axhline(0, color="black", linewidth=1)


def draw_deliveries(bars: Bars, results: list[Result]) -> None:
    """Draw doubled records upwards, lost ones downwards, and a dot where each record was delivered once."""
    most = max(200, *(percent(r, r.observation.duplicates) for r in bars.experiment.results))
    bars.scale_percent(-150, 1.5 * most, "each once")
    for result in results:
        observation = result.observation
        doubled, lost = percent(result, observation.duplicates), percent(result, observation.lost)
        undelivered = percent(result, observation.undelivered)
        if doubled or not (lost or undelivered):
            bars.add(result, doubled)
        if lost:
            bars.add(result, -lost)
        if undelivered:
            bars.add(result, -undelivered, -lost, hatched=True)
    if all(result.complete and result.observation.exact for result in results):
        middle = (len(bars.experiment.matrix.probabilities) - 1) / 2
        bars.axes.text(middle, 2, "each record once, in every delivery", ha="center", color=GREY)


def draw_times(bars: Bars, results: list[Result]) -> None:
    """Draw the time of each cell, relative to at-least-once under the same failures: slower is upwards."""
    ratios = [ratio for result in bars.experiment.results if (ratio := bars.experiment.relative(result))]
    low, high = min([0.5, *ratios]) / 1.2, max([2.0, *ratios]) * 1.4
    bars.axes.set_yscale("log", base=2)
    bars.axes.set_ylim(low, high)
    ticks = [tick for tick in TIME_TICKS if low <= tick <= high]
    bars.axes.set_yticks(ticks, [f"× {tick:g}" for tick in ticks])
    bars.axes.minorticks_off()
    bars.axes.axhline(1, color="black", linewidth=1)
    for result in results:
        ratio = bars.experiment.relative(result)
        if ratio is None:
            continue
        bars.add(result, ratio - 1, 1, hatched=not result.complete)
        if result.cell.mode is Mode.EXACTLY_ONCE:
            bars.axes.annotate(
                f"{ratio:.1f}", (bars.position(result), max(1, ratio)), (0, 3), textcoords="offset points", ha="center"
            )


def draw_aborted(bars: Bars, results: list[Result]) -> None:
    """Draw what was produced and aborted: only a read_uncommitted consumer sees it."""
    most = max(100, *(percent(r, r.observation.aborted) for r in bars.experiment.results))
    bars.scale_percent(0, 1.5 * most, "none")
    for result in results:
        bars.add(result, percent(result, result.observation.aborted))


def percent(result: Result, records: int) -> float:
    return 100 * records / result.observation.expected
