"""The charts draw what was counted: one bar or dot for each cell, on labelled axes."""

from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from eos_assets.declare.modes import Mode
from eos_assets.experiment.charts import COLOURS, HATCH, draw, draw_svg
from eos_assets.experiment.matrix import Experiment, Matrix
from eos_assets.experiment.table import rows
from eos_assets_tests.experiment.samples import typical, typical_experiment

SVG = "{http://www.w3.org/2000/svg}"
MODES = {colour: mode for mode, colour in COLOURS.items()}


def delivery_panels(experiment: Experiment) -> list[Axes]:
    """The panels of the first row: what became of the records."""
    return [axes for axes in draw(experiment).axes if axes.get_title()]


def bars(experiment: Experiment) -> Iterator[tuple[Mode, Rectangle]]:
    for axes in delivery_panels(experiment):
        for patch in axes.patches:
            assert isinstance(patch, Rectangle)
            yield MODES[to_hex(patch.get_edgecolor())], patch


def dots(experiment: Experiment) -> Iterator[tuple[Mode, float]]:
    """The mode and the height of each dot."""
    for axes in delivery_panels(experiment):
        for line in axes.lines:
            if line.get_marker() == "o":
                (height,) = np.asarray(line.get_ydata()).tolist()
                yield MODES[to_hex(str(line.get_color()))], height


def test_losses_are_drawn_below_the_line_and_doubles_above_it() -> None:
    solid = [(mode, bar) for mode, bar in bars(typical_experiment()) if not bar.get_hatch()]
    doubled = [(mode, bar) for mode, bar in solid if bar.get_height() == pytest.approx(120)]
    lost = [(mode, bar) for mode, bar in solid if bar.get_height() == pytest.approx(-50)]
    assert len(doubled) + len(lost) == len(solid)
    assert {mode for mode, _ in doubled} == {Mode.AT_LEAST_ONCE}
    assert {mode for mode, _ in lost} == {Mode.AT_MOST_ONCE}
    assert {bar.get_y() for _, bar in solid} == {0.0}, "all begin at the line"


def test_a_dot_marks_that_nothing_happened_and_hatching_that_a_cell_gave_up() -> None:
    experiment = typical_experiment()
    assert {height for _, height in dots(experiment)} == {0.0}
    harmless = [result.cell.mode for result in experiment.results if result.complete and result.observation.exact]
    assert sorted(mode for mode, _ in dots(experiment)) == sorted(harmless)
    gave_up = [(mode, round(bar.get_height()), bar.get_hatch()) for mode, bar in bars(experiment) if bar.get_hatch()]
    assert gave_up == [(Mode.EXACTLY_ONCE, -100, HATCH)] * 2


def test_the_axes_are_labelled_and_every_delivery_is_in_the_legend() -> None:
    texts = {element.text for element in ElementTree.fromstring(draw_svg(typical_experiment())).iter(f"{SVG}text")}
    assert {"probability of failure", "each once", "at most once", "at least once", "exactly once"} <= texts
    assert {"failure: before commit", "failure: after commit", "failure: hard kill"} <= texts


def test_a_single_cell_without_the_delivery_it_is_compared_with_is_drawn_too() -> None:
    matrix = Matrix(modes=(Mode.EXACTLY_ONCE,), kinds=("kill",), probabilities=(0.0,), records=100)
    experiment = Experiment(matrix, "x", [typical(cell) for cell in matrix.cells()])
    ElementTree.fromstring(draw_svg(experiment))
    assert rows(experiment)[0][-1] == "–"


def test_equal_experiments_give_equal_drawings() -> None:
    assert draw_svg(typical_experiment()) == draw_svg(typical_experiment())
