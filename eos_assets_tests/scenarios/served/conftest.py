"""One stack for all tests of the folder, because it takes half a minute to start."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from eos_assets.platform.settings import Settings
from eos_assets_tests.scenarios.served.stack import ServedStack, start

#: The number of integers in the source when the tests begin.
FILLED = 500


@pytest.fixture(scope="package")
def served(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStack]:
    """Kafka, Spark Connect, webserver and daemon, with all sensors running, and records in the source."""
    with ExitStack() as cleanup:
        folder = tmp_path_factory.mktemp("served")
        stack = start(folder, cleanup, entry_point="eos_assets_tests.scenarios.served.pipelines")
        stack.eos("fill", "datasource", "--count", str(FILLED))
        yield stack
