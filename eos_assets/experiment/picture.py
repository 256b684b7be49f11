"""An experiment in, one picture out: an SVG that stands alone, in light and dark. Pure text, no library."""

from collections.abc import Iterator
from html import escape
from math import log2, log10

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Result
from eos_assets.experiment.matrix import Experiment
from eos_assets.experiment.table import KIND_NAMES, MODE_NAMES

#: Okabe and Ito's colours, which people with any colour vision tell apart: on white, on dark.
COLOURS = {
    Mode.AT_MOST_ONCE: ("#d55e00", "#ff9249"),
    Mode.AT_LEAST_ONCE: ("#0072b2", "#56b4e9"),
    Mode.EXACTLY_ONCE: ("#009e73", "#3ddbaa"),
}
CLASSES = {Mode.AT_MOST_ONCE: "amo", Mode.AT_LEAST_ONCE: "alo", Mode.EXACTLY_ONCE: "eo"}

WIDTH, LEFT, RIGHT, GAP = 1080, 98, 22, 26
TOP, PANEL, COST, ABORTED = 128, 300, 150, 110
BETWEEN = 74
HEIGHT = TOP + PANEL + COST + ABORTED + 2 * BETWEEN + 62
#: Percent of the records above and below the line, and times relative to at least once.
UP_TICKS, DOWN_TICKS, TIME_TICKS = (10, 100, 1000), (10, 100), (0.25, 0.5, 1, 2, 4)


def picture(experiment: Experiment) -> str:
    """A column for each kind of failure: what became of the records, the time it took, what was written in vain."""
    kinds = experiment.matrix.kinds
    width = (WIDTH - LEFT - RIGHT - GAP * (len(kinds) - 1)) / len(kinds)
    body = [*head(experiment)]
    for number, kind in enumerate(kinds):
        x = LEFT + number * (width + GAP)
        results = [r for r in experiment.results if r.cell.kind == kind]
        body.append(text(x + width / 2, TOP - 14, f"failure: {KIND_NAMES[kind]}", "panel", "middle"))
        first = number == 0
        body += Panel(experiment, x, width, first).deliveries(results, TOP)
        body += Panel(experiment, x, width, first).times(results, TOP + PANEL + BETWEEN)
        body += Panel(experiment, x, width, first).aborted(results, TOP + PANEL + COST + 2 * BETWEEN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="Three deliveries under the same failures"><style>{style()}</style>'
        f'<defs>{"".join(hatches())}</defs><rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="10"/>'
        f"{''.join(body)}</svg>"
    )


def head(experiment: Experiment) -> Iterator[str]:
    matrix = experiment.matrix
    yield text(LEFT, 36, "The same failures, three deliveries", "title")
    told = f"{matrix.records:,} records in {matrix.partitions} partitions for each cell, seed {matrix.seed}"
    yield text(LEFT, 57, told, "quiet")
    x: float = LEFT
    for mode in matrix.modes:
        yield f'<rect class="{CLASSES[mode]}" x="{x}" y="70" width="14" height="14" rx="3"/>'
        yield text(x + 20, 82, MODE_NAMES[mode], "legend")
        x += 142
    yield f'<rect class="grid" x="{x}" y="70" width="14" height="14" fill="url(#hatch-eo)"/>'
    yield text(x + 20, 82, "gave up: not delivered yet, lost to nobody", "legend")


class Panel:
    """One column of the picture: an axis of probabilities, and a group of bars for each."""

    def __init__(self, experiment: Experiment, x: float, width: float, first: bool) -> None:
        self.experiment = experiment
        self.x = x
        self.width = width
        self.first = first
        self.step = width / len(experiment.matrix.probabilities)
        self.bar = min(18.0, self.step * 0.8 / len(experiment.matrix.modes))

    def place(self, result: Result) -> float:
        """The left edge of a cell's bar."""
        matrix = self.experiment.matrix
        group = matrix.probabilities.index(result.cell.probability)
        shift = matrix.modes.index(result.cell.mode) - len(matrix.modes) / 2
        return self.x + (group + 0.5) * self.step + shift * self.bar

    def axis(self, y: float, height: float, label: str) -> Iterator[str]:
        yield (
            f'<rect class="frame" x="{self.x:.1f}" y="{y:.1f}" width="{self.width:.1f}" height="{height:.1f}" rx="4"/>'
        )
        for number, probability in enumerate(self.experiment.matrix.probabilities):
            x = self.x + (number + 0.5) * self.step
            yield text(x, y + height + 17, f"{probability:g}", "tick", "middle")
        yield text(self.x + self.width / 2, y + height + 35, "probability of failure", "quiet", "middle")
        yield from self.upright(y + height / 2, label)

    def upright(self, y: float, label: str) -> Iterator[str]:
        if self.first:
            at = f"{LEFT - 70} {y:.1f}"
            yield f'<text class="quiet" text-anchor="middle" transform="translate({at}) rotate(-90)">{label}</text>'

    def rule(self, y: float, label: str, kind: str = "grid") -> Iterator[str]:
        yield f'<line class="{kind}" x1="{self.x:.1f}" x2="{self.x + self.width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        if self.first:
            yield text(self.x - 7, y + 4, label, "tick", "end")

    def mark(self, result: Result, y1: float, y2: float, told: str, hatched: bool = False) -> str:
        """A bar between two heights. One without height is a dot on the line: nothing happened, and that is said."""
        name, x = CLASSES[result.cell.mode], self.place(result)
        tip = f"<title>{escape(MODE_NAMES[result.cell.mode])}, p = {result.cell.probability:g}: {escape(told)}</title>"
        if abs(y2 - y1) < 0.5:
            return f'<circle class="{name}" cx="{x + self.bar / 2:.1f}" cy="{y1:.1f}" r="4.5">{tip}</circle>'
        fill = f' style="fill:url(#hatch-{name})"' if hatched else ""
        return (
            f'<rect class="{name}{" hatched" if hatched else ""}"{fill} x="{x + 1:.1f}" y="{min(y1, y2):.1f}" '
            f'width="{self.bar - 2:.1f}" height="{abs(y2 - y1):.1f}" rx="2">{tip}</rect>'
        )

    def deliveries(self, results: list[Result], y: float) -> Iterator[str]:
        """Doubled upwards, lost downwards, and on the line what exactly once means."""
        accounts = [r.account for r in self.experiment.results]
        most = max([200.0, *(100 * a.duplicates / a.expected for a in accounts)])
        unit = PANEL / (height_of(most) + height_of(100) + 0.24)
        zero = y + PANEL - unit * (height_of(100) + 0.12)
        yield from self.axis(y, PANEL, "")
        yield from self.upright((y + zero) / 2, "records doubled →")
        yield from self.upright((y + PANEL + zero) / 2, "← records lost")
        for percent in UP_TICKS:
            if percent <= most:
                yield from self.rule(zero - unit * height_of(percent), f"+{percent} %")
        for percent in DOWN_TICKS:
            yield from self.rule(zero + unit * height_of(percent), f"−{percent} %")
        yield from self.rule(zero, "each once", "zero")
        if all(r.account.exact and r.complete for r in results):
            yield text(self.x + self.width / 2, zero - 16, "each record once, in every delivery", "quiet", "middle")
        for r in results:
            a = r.account
            up, lost, waiting = (100 * n / a.expected for n in (a.duplicates, a.lost, a.undelivered))
            below = zero + unit * height_of(lost)
            if up or not lost + waiting:
                yield self.mark(r, zero, zero - unit * height_of(up), f"{a.duplicates:,} doubled")
            if lost:
                yield self.mark(r, zero, below, f"{a.lost:,} lost")
            if waiting:
                end = zero + unit * height_of(lost + waiting)
                yield self.mark(r, below, end, f"gave up, {a.undelivered:,} not delivered", hatched=True)

    def times(self, results: list[Result], y: float) -> Iterator[str]:
        """Above the line slower than at least once, below it faster."""
        ratios = {r.cell: ratio for r in self.experiment.results if (ratio := self.experiment.relative(r))}
        low, high = min([0.5, *ratios.values()]), max([2.0, *ratios.values()])
        unit = COST / (log2(high / low) + 0.7)
        one = y + unit * (log2(high) + 0.5)
        yield from self.axis(y, COST, "time")
        for tick in TIME_TICKS:
            if low <= tick <= high and tick != 1:
                yield from self.rule(one - unit * log2(tick), f"× {tick:g}")
        yield from self.rule(one, "× 1", "zero")
        if self.first:
            yield text(self.x, y - 12, "Time, relative to at least once under the same failures", "row")
        for r in results:
            if (ratio := ratios.get(r.cell)) is None:
                continue
            end = one - unit * log2(ratio)
            yield self.mark(r, one, end, f"{r.seconds:.1f} s, × {ratio:.2f}", hatched=not r.complete)
            if r.cell.mode is Mode.EXACTLY_ONCE:
                above = min(one, end) - 5
                yield text(self.place(r) + self.bar / 2, above, f"{ratio:.1f}", "tick", "middle")

    def aborted(self, results: list[Result], y: float) -> Iterator[str]:
        """What was written and taken back: only a reader of uncommitted data sees it."""
        accounts = [r.account for r in self.experiment.results]
        most = max([100.0, *(100 * a.aborted / a.expected for a in accounts)])
        unit = (ABORTED - 14) / height_of(most)
        zero = y + ABORTED - 6
        yield from self.axis(y, ABORTED, "% of the records")
        for percent in UP_TICKS:
            if percent <= most:
                yield from self.rule(zero - unit * height_of(percent), f"{percent} %")
        yield from self.rule(zero, "0", "zero")
        if self.first:
            yield text(self.x, y - 12, "Written and aborted: seen by a read_uncommitted reader only", "row")
        for r in results:
            share = 100 * r.account.aborted / r.account.expected
            yield self.mark(r, zero, zero - unit * height_of(share), f"{r.account.aborted:,} aborted")


def height_of(percent: float) -> float:
    """Nearly linear below 10 %, logarithmic above: losses of 5 % and doubles of 1000 % fit on one axis."""
    return log10(1 + percent / 10)


def text(x: float, y: float, said: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'


def hatches() -> Iterator[str]:
    for name in CLASSES.values():
        yield (
            f'<pattern id="hatch-{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect class="ground" width="6" height="6"/>'
            f'<rect class="{name}" width="2" height="6"/></pattern>'
        )


def style() -> str:
    def inks(theme: int) -> str:
        return "".join(f".{CLASSES[m]}{{fill:{c[theme]};stroke:{c[theme]}}}" for m, c in COLOURS.items())

    return (
        "text{font:13px system-ui,sans-serif;fill:#1d2430}.title{font-size:21px;font-weight:650}"
        ".panel,.row{font-size:14px;font-weight:600}.quiet,.tick{fill:#5a6474}.tick{font-size:11.5px}"
        ".ground{fill:#fff}.frame{fill:none;stroke:#cfd5de}.grid{stroke:#e4e8ee}.zero{stroke:#1d2430;stroke-width:1.4}"
        ".amo,.alo,.eo{stroke-width:0}.hatched{stroke-width:1.2}"
        f"{inks(0)}@media(prefers-color-scheme:dark){{text{{fill:#e8ecf2}}.quiet,.tick{{fill:#a3adbb}}"
        f".ground{{fill:#151a21}}.frame{{stroke:#3a4452}}.grid{{stroke:#29313c}}.zero{{stroke:#e8ecf2}}{inks(1)}}}"
    )
