"""The report: one page that needs no other file, and the tables and charts of Dagster's metadata."""

import base64
import re
from dataclasses import replace

from eos_assets.declare.modes import Mode
from eos_assets.experiment.charts import draw_svg
from eos_assets.experiment.matrix import Experiment, Matrix
from eos_assets.experiment.report import html, markdown_charts, markdown_table
from eos_assets.experiment.table import COLUMNS, headline
from eos_assets_tests.experiment.samples import result, typical_experiment


def test_the_page_loads_nothing_from_anywhere() -> None:
    page = html(typical_experiment())
    without_namespaces = re.sub(r'xmlns(:xlink)?="[^"]*"', "", page)
    assert not re.search(r"https?://|<script|<link|@import|src=", without_namespaces)
    assert "prefers-color-scheme:dark" in page
    assert page.count("<tr>") == 1 + 3 + 1 + 45


def test_time_is_relative_to_at_least_once_under_the_same_failures() -> None:
    slow = replace(result(Mode.EXACTLY_ONCE), seconds=3.0)
    others = [result(Mode.AT_LEAST_ONCE), replace(result(Mode.AT_LEAST_ONCE, kind="kill"), seconds=9.0)]
    assert Experiment(Matrix(), "x", [slow, *others]).relative(slow) == 1.5


def test_markdown_contains_the_tables_and_the_charts() -> None:
    experiment = typical_experiment()
    image = re.fullmatch(r"!\[[^]]*\]\(data:image/svg\+xml;base64,([^)]+)\)", markdown_charts(experiment))
    assert image is not None
    assert base64.b64decode(image.group(1)).decode() == draw_svg(experiment)
    lines = markdown_table(experiment).splitlines()
    assert lines[0] == headline(experiment)
    assert sum(line.count("|") == len(COLUMNS) + 1 for line in lines) == 2 + 45


def test_the_headline_names_what_each_delivery_lost_and_doubled() -> None:
    assert headline(typical_experiment()) == (
        "At most once lost 400; at least once doubled 960; exactly once lost none and doubled none."
    )
