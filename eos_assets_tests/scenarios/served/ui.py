"""The pages of the Dagster UI that tests and pictures look at, found by their addresses, roles and words."""

import re

from playwright.sync_api import Locator, Page, expect

LOCATION = "eos_assets.definitions"
#: What the UI remembers of a user who wants a small menu and short nodes.
REMEMBERED = {
    "dagster-nav-collapsed": "true",
    "asset-node-facets": '["checks","status","kind-tag","partitions"]',
}


def open_group(page: Page, group: str, assets: list[str]) -> None:
    """The graph of one group, made smaller until it shows all of these assets. What is out of sight is not there."""
    for name, value in REMEMBERED.items():
        page.add_init_script(f"localStorage.setItem({name!r}, {value!r})")
    page.goto(f"/locations/{LOCATION}/asset-groups/{group}")
    smaller = page.get_by_role("button").filter(has=page.get_by_role("img", name="zoom_out"))
    smaller.wait_for()
    settle(page)
    for _ in range(10):
        if all(in_sight(page, node(page, asset)) for asset in assets):
            break
        smaller.click()
        settle(page)
    for asset in assets:
        expect(node(page, asset)).to_be_visible()


def node(page: Page, asset: str) -> Locator:
    """The name of an asset in a graph."""
    return page.get_by_text(asset, exact=True).first


def in_sight(page: Page, there: Locator) -> bool:
    """With room for the rest of the node below its name."""
    box, window = there.bounding_box() if there.count() else None, page.viewport_size
    return box is not None and window is not None and 160 < box["y"] < window["height"] - 110


def settle(page: Page) -> None:
    """Until the page has all that it asked for."""
    expect(page.get_by_text("Loading")).to_have_count(0)


def open_check(page: Page, asset: str, check: str) -> None:
    page.goto(f"/assets/{asset}?view=checks&checkDetail={check}")
    expect(page.get_by_text("Latest execution")).to_be_visible()
    settle(page)


def colour(there: Locator) -> tuple[int, int, int]:
    """Red, green and blue of a text."""
    told = str(there.evaluate("element => getComputedStyle(element).color"))
    red, green, blue = (int(part) for part in re.findall(r"\d+", told)[:3])
    return red, green, blue


def materialize_partition(page: Page, asset: str, partition: str) -> None:
    """Clicks through Materialize … on the page of a partitioned asset."""
    page.goto(f"/assets/{asset}?view=partitions")
    page.get_by_role("button", name="Materialize…").click()
    dialog = page.get_by_role("dialog").filter(has_text="Launch runs to materialize")  # its menu is a dialog too
    dialog.get_by_text("Select a partition").click()
    page.get_by_placeholder("Filter partitions").fill(partition)
    page.get_by_role("menuitem", name=f"{partition} {partition}").click()
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Launch").click()
    expect(dialog).to_be_hidden()
