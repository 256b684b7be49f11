"""Takes the pictures of the README from a stack of its own."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from eos_assets.platform.project import project_root
from eos_assets_tests.scenarios.served import ui
from eos_assets_tests.scenarios.served.browser import open_page
from eos_assets_tests.scenarios.served.stack import ServedStack, eventually, start
from eos_assets_tests.scenarios.served.test_ui import ASSETS

FOLDER = project_root(Path(__file__).parent) / "docs" / "pictures"
#: Several fills, so that there is something to see over time.
FILLS = (40_000, 25_000, 60_000)
#: The graph is taller than it is wide.
GRAPH_HEIGHT = 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as cleanup:
        served = start(Path(folder), cleanup, entry_point=None)
        for done, count in enumerate(FILLS, start=1):
            served.eos("fill", "datasource", "--count", str(count))
            eventually(lambda wanted=done: successful_runs(served) == wanted)  # type: ignore[misc]
        eventually(lambda: served.dagster.finished("squares_audit_job"))
        FOLDER.mkdir(exist_ok=True)
        with open_page(served.address, GRAPH_HEIGHT) as page:
            ui.open_group(page, "squares", ASSETS)
            page.screenshot(path=FOLDER / "graph.png")
        with open_page(served.address) as page:
            ui.open_check(page, "datasink", "no_duplicates")
            page.screenshot(path=FOLDER / "partitions-and-checks.png")


def successful_runs(served: ServedStack) -> int:
    return sum(run.status == "SUCCESS" for run in served.dagster.runs("squares_job"))


if __name__ == "__main__":
    main()
