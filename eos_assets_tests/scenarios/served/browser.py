"""A browser for the Dagster UI: the installed Chromium, headless, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect, sync_playwright

#: None if no browser is installed. The tests never download one.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 30_000


@contextmanager
def open_page(address: str, height: int = 900) -> Iterator[Page]:
    """A page of the UI. Relative addresses are those of the webserver."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, *as_root])
        context = browser.new_context(
            base_url=address,
            viewport={"width": 1400, "height": height},
            color_scheme="light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        try:
            yield context.new_page()
        finally:
            browser.close()
