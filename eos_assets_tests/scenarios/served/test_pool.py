"""One run of a pipeline at a time, although a click, a backfill and the sensor request one together."""

from itertools import pairwise

import pytest

from eos_assets_tests.scenarios.served.graphql import CLICKED, Run
from eos_assets_tests.scenarios.served.stack import ServedStack, eventually

pytestmark = pytest.mark.timeout(1200)


def test_runs_of_one_pipeline_never_overlap(served: ServedStack) -> None:
    dagster, count = served.dagster, served.count("datasource")
    eventually(lambda: dagster.partitions("datasink") == ["0", "1", "2"])
    eventually(lambda: all(run.ended for run in dagster.runs()))
    before = {run.id for run in dagster.runs()}

    def requested() -> list[Run]:
        return [run for run in dagster.runs() if run.id not in before and run.job in (CLICKED, "squares_job")]

    with dagster.closed_pool("eos_squares"):
        backfill = dagster.backfill(["datasink"], ["0", "1"])
        eventually(lambda: dagster.runs(dagster__backfill=backfill))
        dagster.launch(CLICKED, {"dagster/partition": "1"}, assets=[{"path": ["datasink"]}])
        served.produce("datasource", [b"%d" % number for number in range(10**9, 10**9 + 300)], partition=2)
        eventually(lambda: [run.status for run in requested()] == ["QUEUED"] * 3)
    eventually(lambda: all(run.ended for run in requested()))
    runs = sorted(requested(), key=lambda run: run.steps["squares"])
    assert [run.status for run in runs] == ["SUCCESS"] * 3
    assert sum("eos/try" in run.tags for run in runs) == 1, "one is the sensor's"
    for earlier, later in pairwise(runs):
        assert earlier.steps["squares"][1] <= later.steps["squares"][0], "two runs wrote at the same time"
    eventually(lambda: served.count("datasink") == count + 300)
    assert served.report("verify", "squares", "--full")["holds"]
