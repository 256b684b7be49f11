"""The report is one page that needs no other file and names everything that is wrong."""

import json
import re
from dataclasses import replace

from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from eos_assets.chaos.checker import Anomaly
from eos_assets.chaos.report import HOLDS, html
from eos_assets.chaos.samples import MemoryUse
from eos_assets.chaos.timeline import colour, draw, draw_svg
from eos_assets.declare.check import Finding
from eos_assets_tests.chaos.results import result


def test_the_page_loads_nothing_from_anywhere() -> None:
    page = html(result())
    without_namespaces = re.sub(r'xmlns(:xlink)?="[^"]*"', "", page)
    assert not re.search(r"https?://|<script|<link|@import|src=", without_namespaces)
    assert HOLDS in page
    assert draw_svg(result()) in page


def test_the_page_shows_seed_faults_counts_and_silence() -> None:
    page = html(result())
    for text in ("Seed 7;", "6 faults in 1 min", "victim 1", "nothing", "60,000", "too short to decide", "4.5"):
        assert text in page


def test_everything_that_is_wrong_is_named() -> None:
    failed = replace(
        result(),
        failures=["No fault of kind abort has struck."],
        findings=[Finding("no_duplicates", False, "3 origins visible more than once", ("offset 7",))],
        anomalies=[Anomaly("torn_transaction", 2, ("reader final received 3 outputs",))],
        memory=[MemoryUse("runs", 100, 900, 900, False)],
    )
    assert failed.problems == [
        "No fault of kind abort has struck.",
        "Invariant no_duplicates is broken: 3 origins visible more than once.",
        "The history has an anomaly: torn_transaction, 2 times: reader final received 3 outputs.",
        "The memory of runs grew from 100 to 900 bytes.",
    ]
    page = html(failed)
    assert HOLDS not in page
    assert all(problem in page for problem in failed.problems)


def test_a_warning_is_not_a_problem() -> None:
    warned = replace(result(), findings=[Finding("source_is_unique", False, "2 keys twice", severity="warning")])
    assert warned.problems == []


def test_each_fault_is_a_bar_and_one_that_struck_nobody_is_hollow() -> None:
    faults, *_ = draw(result()).axes
    bars = [patch for patch in faults.patches if isinstance(patch, Rectangle)]
    assert [bar.get_x() for bar in bars] == [fault.began for fault in result().faults]
    assert [to_rgba(bar.get_facecolor())[3] for bar in bars] == [1.0] * 6 + [0.0]
    assert len({colour(fault.planned.kind) for fault in result().faults}) == len(bars)


def test_the_result_is_plain_data() -> None:
    row = json.loads(json.dumps(result().row()))
    assert row["holds"]
    assert row["options"]["seed"] == 7
    assert row["struck"]["kill-broker"] == 1
    assert row["faults"][0]["kind"] == "kill-broker"
