"""The platform over GraphQL, as the UI uses it: runs of a sensor, of a range, and of the checks alone."""

import pytest

from eos_assets.orchestration.checks import AUDIT_CHECK, INVARIANTS, UNIQUE_NAME
from eos_assets.orchestration.partitions import range_tags
from eos_assets_tests.scenarios.served.conftest import FILLED
from eos_assets_tests.scenarios.served.stack import ServedStack, eventually

pytestmark = pytest.mark.timeout(1200)


def test_up_keeps_the_servers_that_are_running(served: ServedStack) -> None:
    before = served.report("status")
    assert {server["name"] for server in before["servers"]} == {
        "kafka-1",
        "spark",
        "dagster-webserver",
        "dagster-daemon",
        "exporter",
    }
    for command in (["up"], ["up", "--no-dagster"]):
        served.eos(*command)
        assert served.report("status") == before, "running servers are kept"
    assert "warning" not in served.eos("doctor"), "every server listens on loopback only"


def test_the_sensor_runs_a_pipeline_on_new_records_and_then_the_next_one(served: ServedStack) -> None:
    run = eventually(lambda: served.dagster.finished("squares_job")) or ""
    assert served.dagster.status(run) == "SUCCESS"
    checks = served.dagster.check_evaluations(run)
    assert set(checks) == {*INVARIANTS} - {UNIQUE_NAME}
    assert all(checks.values())
    partitions = served.dagster.figures(run, "datasink")
    assert sum(figures["records_in"] or 0 for figures in partitions) == FILLED
    assert all({"range", "transactional_id", "ledger", "records_per_second"} <= set(figures) for figures in partitions)
    assert served.metric("eos_records_out_total", pipeline="squares") == FILLED
    eventually(lambda: served.metric("eos_proof_holds", pipeline="squares") == 1)
    downstream = eventually(lambda: served.dagster.finished("doubles_job")) or ""
    assert served.dagster.status(downstream) == "SUCCESS", "one pipeline's sink is the next one's source"
    eventually(lambda: served.count("doubled") == FILLED)


def test_the_audit_tables_are_updated_by_a_run_of_their_own(served: ServedStack) -> None:
    def updated() -> str | None:
        run = served.dagster.finished("squares_audit_job")
        rows = served.dagster.figures(run, "squares", "audit_deliveries") if run else []
        return run if [figures["dagster/row_count"] for figures in rows] == [FILLED] else None

    run = eventually(updated) or ""
    assert served.dagster.status(run) == "SUCCESS"
    assert served.dagster.check_evaluations(run) == {AUDIT_CHECK: True}


def test_a_range_and_the_checks_alone_are_launched(served: ServedStack) -> None:
    launched = served.dagster.launch("squares_job", range_tags(0, 1))
    alone = served.dagster.launch("squares_checks", {})
    assert eventually(lambda: served.dagster.ended(launched)) == "SUCCESS"
    materialized = [e for e in served.dagster.events(launched) if e["__typename"] == "MaterializationEvent"]
    assert {e["partition"] for e in materialized if e["assetKey"]["path"] == ["datasink"]} == {"0", "1"}
    assert eventually(lambda: served.dagster.ended(alone)) == "SUCCESS"
    assert all(served.dagster.check_evaluations(alone).values())
    assert all(row["passed"] for row in served.report("checks", "squares", "--full"))
    assert str(FILLED) in served.eos("audit", "squares")


def test_what_the_command_line_commits_is_materialized_in_dagster(served: ServedStack) -> None:
    """The pool is closed meanwhile, so that no run of the sensor comes first."""
    with served.dagster.closed_pool("eos_squares"):
        served.produce("datasource", [b"%d" % number for number in range(3 * 10**8, 3 * 10**8 + 7)])
        committed = served.report("run", "squares")["run"]

        def reported() -> list[tuple[str, str]]:
            events = served.dagster.materializations("datasink")
            return [(e["runId"], e["partition"]) for e in events if e["committed_by"] == committed]

        assert eventually(reported) == [("", "0")], "an event without a run of Dagster"
