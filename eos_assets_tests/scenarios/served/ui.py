"""The pages of the Dagster UI that tests and pictures use, found by address, role and text."""

import re

from playwright.sync_api import Locator, Page, expect

LOCATION = "eos_assets.definitions"
#: The preferences of a user with a small menu and short nodes.
PREFERENCES = {
    "dagster-nav-collapsed": "true",
    "asset-node-facets": '["checks","status","kind-tag","partitions"]',
}


def open_group(page: Page, group: str, assets: list[str]) -> None:
    """Open the graph of one group and zoom out until it shows these assets. The UI renders only what is visible."""
    for name, value in PREFERENCES.items():
        page.add_init_script(f"localStorage.setItem({name!r}, {value!r})")
    page.goto(f"/locations/{LOCATION}/asset-groups/{group}")
    smaller = page.get_by_role("button").filter(has=page.get_by_role("img", name="zoom_out"))
    smaller.wait_for()
    settle(page)
    for _ in range(10):
        if all(is_visible(page, node(page, asset)) for asset in assets):
            break
        smaller.click()
        settle(page)
    for asset in assets:
        expect(node(page, asset)).to_be_visible()


def node(page: Page, asset: str) -> Locator:
    """The name of an asset in a graph."""
    return page.get_by_text(asset, exact=True).first


def is_visible(page: Page, locator: Locator) -> bool:
    """With room for the rest of the node below its name."""
    box, window = locator.bounding_box() if locator.count() else None, page.viewport_size
    return box is not None and window is not None and 160 < box["y"] < window["height"] - 110


def settle(page: Page) -> None:
    """Wait until the page has loaded its data."""
    expect(page.get_by_text("Loading")).to_have_count(0)


def open_check(page: Page, asset: str, check: str) -> None:
    page.goto(f"/assets/{asset}?view=checks&checkDetail={check}")
    expect(page.get_by_text("Latest execution")).to_be_visible()
    settle(page)


def colour(locator: Locator) -> tuple[int, int, int]:
    """The red, green and blue of a text."""
    style = str(locator.evaluate("element => getComputedStyle(element).color"))
    red, green, blue = (int(part) for part in re.findall(r"\d+", style)[:3])
    return red, green, blue


def materialize_partition(page: Page, asset: str, partition: str) -> None:
    """Click through Materialize … on the page of a partitioned asset."""
    page.goto(f"/assets/{asset}?view=partitions")
    page.get_by_role("button", name="Materialize…").click()
    dialog = page.get_by_role("dialog").filter(has_text="Launch runs to materialize")  # its menu is a dialog too
    dialog.get_by_text("Select a partition").click()
    page.get_by_placeholder("Filter partitions").fill(partition)
    page.get_by_role("menuitem", name=f"{partition} {partition}").click()
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Launch").click()
    expect(dialog).to_be_hidden()
