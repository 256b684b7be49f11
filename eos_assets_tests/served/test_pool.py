"""One run of a pipeline at a time, whoever asks: a click, a backfill and the sensor, all at once."""

from itertools import pairwise

import pytest

from eos_assets_tests.served.graphql import CLICKED, Run
from eos_assets_tests.served.stack import PATIENCE, ServedStack
from eos_assets_tests.waiting import wait_for

pytestmark = pytest.mark.timeout(1200)
TOPICS = ["datasink", "datasink-dead-letters", "eos.squares.ledger", "eos.squares.provenance"]


def test_runs_of_one_pipeline_never_overlap_whoever_asks(served: ServedStack) -> None:
    dagster = served.dagster
    wait_for(lambda: dagster.partitions("datasink") == ["0", "1", "2"], PATIENCE)
    before = {run.id for run in dagster.runs("squares_job")}
    count = served.count("datasource")
    clicked = dagster.launch(CLICKED, {"dagster/partition": "1"}, assets=[{"path": [topic]} for topic in TOPICS])
    backfill = dagster.backfill(TOPICS, ["0", "1", "2"])
    served.eos("fill", "datasource", "--count", "3000")

    def asked() -> list[Run]:
        by_sensor = [run for run in dagster.runs("squares_job") if run.id not in before and "eos/try" in run.tags]
        by_backfill = dagster.runs(dagster__backfill=backfill)
        by_click = [run for run in dagster.runs(CLICKED) if run.id == clicked]
        return [*by_click, *by_backfill[:1], *by_sensor[-1:]] if by_backfill and by_sensor else []

    wait_for(asked, PATIENCE)
    wait_for(lambda: all(run.ended for run in asked()), PATIENCE)
    runs = asked()
    assert [run.status for run in runs] == ["SUCCESS"] * 3
    first, second, third = sorted(runs, key=lambda run: run.steps["squares"])
    assert second.asked < (first.ended or 0), "the second one was asked for while the first was under way"
    assert third.asked < (second.ended or 0)
    for earlier, later in pairwise((first, second, third)):
        assert earlier.steps["squares"][1] <= later.steps["squares"][0], "two runs wrote at the same time"
    wait_for(lambda: served.count("datasink") == count + 3000, PATIENCE)
    assert served.report("verify", "squares", "--full")["holds"]
