"""docs/performance.md is written from the results, and from nothing else."""

import re
from pathlib import Path

from benchmarks import page
from benchmarks.chart import write_chart
from benchmarks.contenders import QUIX
from benchmarks.results import Results
from eos_assets_tests.benchmarks.samples import MACHINE, whole_results


def test_the_page_is_that_of_the_latest_results() -> None:
    assert page.PAGE.read_text() == page.render(Results.load())


def test_the_row_of_the_readme_is_that_of_the_latest_results() -> None:
    assert page.readme_row(Results.load()) in page.README.read_text().splitlines()


def test_the_prose_holds_no_figure_of_a_measurement() -> None:
    """Numbers of decisions and commands aside."""
    prose = re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`", "", page.TEMPLATE.read_text())
    assert re.findall(r"\d[\d,.]*", prose.replace("1 is equally fast", "")) == []


def test_every_section_of_the_results_is_shown() -> None:
    text = page.render(whole_results())
    for shown in (
        "Measured on 2026-01-02: A processor, 2 cores, 8 GiB of memory, Linux 6.",
        "| Flink, exactly once | 250,000 (187,500 to 375,000) | 0.50 |",
        "| Short integers, squared | 2.00 |  |",
        "| Flink, exactly once | 0.50 | 1.25 |",
        "| 1,000 | 3 | 2,000 | 1,000 | 0.50 | 1.00 |",
        "| Arrow kind | 0.25 | 0.50 |",
        "| Arrow kind | 55 | 0.010 |",
        "| Apache Kafka (broker) | 4.3.1 |",
        "`streams.processing.guarantee=exactly_once_v2`",
    ):
        assert shown in text, shown


def test_what_was_not_measured_is_named() -> None:
    text = page.render(Results(machine=MACHINE, left_out={QUIX: "No network.\nRemedy: find one."}))
    assert text.count(page.NOT_MEASURED) == 6
    assert "- Quix Streams, exactly once: No network. Remedy: find one." in text


def test_the_readme_compares_four_systems() -> None:
    row = page.readme_row(whole_results())
    assert row == "| short records per second, on 2 cores (Arrow batches) | 500,000 | 250,000 | 250,000 | 250,000 |"
    assert page.readme_row(Results(machine=MACHINE)) is None
    assert len(page.README_ROW.findall(page.README.read_text())) == 1


def test_equal_results_give_equal_pictures(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        write_chart(whole_results().throughput, tmp_path / name)
    assert (tmp_path / "one.svg").read_text() == (tmp_path / "two.svg").read_text()
