"""The report: one page that needs nothing else, with a picture that says what the numbers say."""

import base64
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from eos_assets.declare.modes import Mode
from eos_assets.experiment.matrix import Experiment, Matrix
from eos_assets.experiment.picture import CLASSES, picture
from eos_assets.experiment.report import html, markdown_picture, markdown_table
from eos_assets.experiment.table import COLUMNS, headline, rows
from eos_assets_tests.experiment.samples import result, typical, typical_experiment

SVG = "{http://www.w3.org/2000/svg}"


def drawn(experiment: Experiment, told: str) -> list[ElementTree.Element]:
    """The marks whose tip says so."""
    tree = ElementTree.fromstring(picture(experiment))
    return [mark for mark in tree.iter() if (tip := mark.find(f"{SVG}title")) is not None and told in str(tip.text)]


def test_the_page_loads_nothing_from_anywhere() -> None:
    page = html(typical_experiment())
    outside = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|<script|<link|@import|src=", outside)
    assert "prefers-color-scheme:dark" in page
    assert page.count("<tr>") == 1 + 3 + 1 + 45


def test_the_picture_draws_losses_below_the_line_and_doubles_above_it() -> None:
    experiment = typical_experiment()
    doubled, lost = drawn(experiment, "120 doubled"), drawn(experiment, "50 lost")
    assert {mark.get("class") for mark in doubled} == {CLASSES[Mode.AT_LEAST_ONCE]}
    assert {mark.get("class") for mark in lost} == {CLASSES[Mode.AT_MOST_ONCE]}
    (line,) = {float(mark.get("y", 0)) for mark in lost}
    begins = {float(m.get("y", 0)) + float(m.get("height", 0)) for m in doubled}
    assert list(begins) == [pytest.approx(line, abs=0.2)], "both begin at the line"


def test_the_picture_says_nothing_happened_by_a_dot_and_giving_up_by_hatching() -> None:
    experiment = typical_experiment()
    eo = CLASSES[Mode.EXACTLY_ONCE]
    dots = [mark for mark in drawn(experiment, "exactly once") if mark.tag == f"{SVG}circle"]
    assert {mark.get("class") for mark in dots} == {eo}
    given_up = drawn(experiment, "gave up, 100 not delivered")
    assert [mark.get("class") for mark in given_up] == [f"{eo} hatched"] * 2


def test_the_axes_are_labelled_and_every_delivery_is_in_the_legend() -> None:
    tree = ElementTree.fromstring(picture(typical_experiment()))
    said = [element.text for element in tree.iter(f"{SVG}text")]
    for wanted in ("probability of failure", "each once", "at most once", "at least once", "exactly once"):
        assert wanted in said
    assert {"failure: before commit", "failure: after commit", "failure: hard kill"} <= set(said)


def test_a_single_cell_without_the_delivery_it_is_compared_with_has_a_picture_too() -> None:
    matrix = Matrix(modes=(Mode.EXACTLY_ONCE,), kinds=("kill",), probabilities=(0.0,), records=100)
    experiment = Experiment(matrix, "x", [typical(cell) for cell in matrix.cells()])
    ElementTree.fromstring(picture(experiment))
    assert rows(experiment)[0][-1] == "–"


def test_time_is_relative_to_at_least_once_under_the_same_failures() -> None:
    slow = replace(result(Mode.EXACTLY_ONCE), seconds=3.0)
    others = [result(Mode.AT_LEAST_ONCE), replace(result(Mode.AT_LEAST_ONCE, kind="kill"), seconds=9.0)]
    assert Experiment(Matrix(), "x", [slow, *others]).relative(slow) == 1.5


def test_markdown_carries_the_tables_and_the_picture_inside() -> None:
    experiment = typical_experiment()
    found = re.fullmatch(r"!\[[^]]*\]\(data:image/svg\+xml;base64,([^)]+)\)", markdown_picture(experiment))
    assert found is not None
    assert base64.b64decode(found.group(1)).decode() == picture(experiment)
    lines = markdown_table(experiment).splitlines()
    assert lines[0] == headline(experiment)
    assert sum(line.count("|") == len(COLUMNS) + 1 for line in lines) == 2 + 45


def test_the_headline_says_who_lost_and_who_doubled() -> None:
    assert headline(typical_experiment()) == (
        "At most once lost 400; at least once doubled 960; exactly once lost none and doubled none."
    )
