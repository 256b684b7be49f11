"""The UI in a browser: the graph, materializing by clicks, and a failed check with its counter-example."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from eos_assets_tests.scenarios.served import ui
from eos_assets_tests.scenarios.served.browser import CHROMIUM, open_page
from eos_assets_tests.scenarios.served.graphql import CLICKED
from eos_assets_tests.scenarios.served.stack import PATIENCE, ServedStack, eventually

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed: neither chromium nor google-chrome"),
]
ASSETS = [
    "datasource",
    "datasink",
    "datasink-dead-letters",
    "eos.squares.ledger",
    "eos.squares.provenance",
    "audit_transactions",
    "audit_deliveries",
    "audit_dead_letters",
    "audit_partitions",
]
#: Sink → pipeline and source.
SOURCES = {
    "datasink": ("squares", "datasource"),
    "transactions": ("file_transactions", "files-with-transactions"),
    "balances": ("balances", "transactions"),
}


@pytest.fixture
def page(served: ServedStack) -> Iterator[Page]:
    with open_page(served.address) as page:
        yield page


def test_the_graph_shows_the_pipeline(served: ServedStack) -> None:
    with open_page(served.address, height=1400) as page:  # names of small nodes are cut
        ui.open_group(page, "squares", ASSETS)
        expect(page.get_by_text("Kafka").first).to_be_visible()


def test_partitions_are_materialized_by_clicking(page: Page, served: ServedStack) -> None:
    served.announce(*served.generate("--count", "50", "--files", "6"))  # the sensors run all three
    clicked = {asset: click(page, served, asset) for asset in SOURCES}
    eventually(lambda: all(map(served.dagster.ended, clicked.values())))
    for asset, (pipeline, source) in SOURCES.items():
        run = clicked[asset]
        assert served.dagster.status(run) == "SUCCESS"
        repeated = [run for run in served.dagster.runs(f"{pipeline}_checks") if "dagster/sensor_name" in run.tags]
        assert repeated == [], "checks that a run will evaluate have not failed"
        events = [e for e in served.dagster.events(run) if e["__typename"] == "MaterializationEvent"]
        assert {e["partition"] for e in events if e["assetKey"]["path"] == [asset]} == {"1"}
        page.goto(f"/assets/{asset}?view=partitions&partition=1")  # a sensor's run may be the latest by now
        expect(page.get_by_text(f"eos/{pipeline}/{source}/1")).to_be_visible()


def click(page: Page, served: ServedStack, asset: str) -> str:
    """Materialize partition 1 of an asset that has records, and return the run."""
    eventually(lambda: served.dagster.partitions(asset) == ["0", "1", "2"])
    eventually(lambda: served.count(asset) > 0)
    before = {run.id for run in served.dagster.runs(CLICKED)}
    ui.materialize_partition(page, asset, "1")
    return eventually(lambda: next((run.id for run in served.dagster.runs(CLICKED) if run.id not in before), ""))


def test_a_failed_check_is_red_and_names_its_counter_example(page: Page, served: ServedStack) -> None:
    """The invented record is in the sink of the last pipeline, where no other test reads."""
    eventually(lambda: served.dagster.finished("doubles_job"))
    served.produce("doubled", [b"4711"])
    ui.open_check(page, "doubled", "none_invented")
    page.get_by_role("button", name="Execute all").click()
    expect.set_options(timeout=PATIENCE * 1000)  # other runs share the two cores
    page.set_default_timeout(PATIENCE * 1000)
    expect(page.get_by_text("topic=doubled, sink_partition=0")).to_be_visible()
    expect(page.get_by_text("1 records without an origin")).to_be_visible()
    red, green, blue = ui.colour(page.get_by_text("Failed", exact=True).last)
    assert red > max(green, blue)
    ui.open_group(page, "doubles", ["doubled"])
    expect(page.get_by_text("7 / 10 Passed")).to_be_visible()
    (alert, *_) = eventually(lambda: alerts(served, "doubles_failed_checks"))
    assert "none_invented" in alert
    assert "topic=doubled, sink_partition=0" in alert
    assert "eos verify doubles --full" in alert


def alerts(served: ServedStack, sensor: str) -> list[str]:
    """What a sensor has raised, without Dagster's note that it has raised something."""
    errors = [tick["error"] for tick in served.dagster.ticks(sensor) if tick["error"]]
    return [cause["message"] for error in errors for cause in error["causes"]]
