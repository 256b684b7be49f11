"""The sensors with a real daemon: a chain of pipelines, a failed run that is repeated, and a topic that grows."""

import re
from functools import partial
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import NewPartitions

from eos_assets.local.daemon import ORPHANED
from eos_assets.orchestration.sensors.backoff import FIRST_DELAY_SECONDS
from eos_assets_tests.scenarios.served.graphql import Graphql, Run
from eos_assets_tests.scenarios.served.stack import ServedStack, eventually

pytestmark = pytest.mark.timeout(1200)


def test_a_new_file_flows_through_to_the_balances_by_sensors_alone(served: ServedStack) -> None:
    dagster = served.dagster
    served.announce(*served.generate("--count", "300", "--format", "csv.gz", "--format", "parquet"))
    booked = ("balances", "balances-dead-letters")
    eventually(lambda: sum(map(served.count, booked)) == 600)
    assert served.count("transactions") == 600
    for pipeline in ("file_transactions", "balances"):
        runs = ended_runs(dagster, f"{pipeline}_job")
        assert {run.status for run in runs} == {"SUCCESS"}
        assert all("eos/try" in run.tags for run in runs), "only the sensor requested runs"
        assert served.report("verify", pipeline, "--full")["holds"]


def ended_runs(dagster: Graphql, job: str) -> list[Run]:
    """All runs of a job, once there is one and none is active."""

    def ended() -> list[Run]:
        runs = dagster.runs(job)
        return runs if all(run.ended for run in runs) else []

    return eventually(ended)


def test_a_failed_run_is_repeated_until_it_succeeds_and_a_new_partition_is_read(served: ServedStack) -> None:
    """The service that `moody` needs is available after its second run; meanwhile its source grows."""
    dagster = served.dagster
    served.produce("moody-in", [b"1", b"2"])
    second, first = eventually(lambda: runs if len(runs := dagster.runs("moody_job")[-2:]) == 2 else [])
    requests = [eventually(partial(request_of, dagster, run)) for run in (first, second)]
    served.connection.admin.create_partitions([NewPartitions("moody-in", 2)])["moody-in"].result()
    eventually(lambda: len(served.connection.partitions("moody-in")) == 2)
    served.produce("moody-in", [b"3"], partition=1)
    served.service.touch()
    eventually(lambda: served.count("moody-out") == 3)
    eventually(lambda: all(run.ended for run in dagster.runs("moody_job")))
    *later, second, first = dagster.runs("moody_job")
    assert first.status == "FAILURE"
    assert "Gave up" not in str(dagster.ticks("moody_new_records"))
    assert [first.tags["eos/try"], second.tags["eos/try"]] == ["1", "2"]
    assert requests[1]["endTimestamp"] - requests[0]["timestamp"] >= FIRST_DELAY_SECONDS, "not immediately"
    assert "SUCCESS" in [run.status for run in (*later, second)]
    assert dagster.partitions("moody-out") == ["0", "1"]
    assert served.report("verify", "moody", "--full")["holds"]


def test_a_run_whose_process_was_killed_is_run_again(served: ServedStack) -> None:
    """F22. Its writer may have died with it at any step."""
    dagster = served.dagster
    eventually(lambda: all(run.ended for run in dagster.runs("squares_job")))
    before = {run.id for run in dagster.runs("squares_job")}
    served.produce("datasource", [b"%d" % number for number in range(4 * 10**9, 4 * 10**9 + 200)])

    def process() -> psutil.Process | None:
        """The process of a run that has not ended."""
        for run in dagster.runs("squares_job"):
            if run.id not in before and run.status == "STARTED":
                started = re.search(r"Started process for run \(pid: (\d+)\)", str(dagster.events(run.id)))
                return psutil.Process(int(started[1])) if started else None
        return None

    killed = eventually(process)
    assert killed
    killed.kill()
    killed.wait(10)
    died = next(run.id for run in reversed(dagster.runs("squares_job")) if run.id not in before)
    assert eventually(lambda: dagster.ended(died)) == "FAILURE"
    eventually(lambda: served.count("datasink") == served.count("datasource"))
    eventually(lambda: dagster.runs("squares_job")[0].status == "SUCCESS")
    assert served.report("verify", "squares", "--full")["holds"]


def request_of(dagster: Graphql, run: Run) -> dict[str, Any]:
    """The tick that requested a run, once it has ended. The run is created later, when it leaves the queue."""
    ticks = dagster.ticks("moody_new_records")
    return next((tick for tick in ticks if run.id in tick["runIds"] and tick["endTimestamp"]), {})


def test_a_run_that_died_with_its_daemon_is_run_again(served: ServedStack) -> None:
    """F22. The daemon and its processes are killed in the middle of a run; `eos up` starts it again."""
    dagster = served.dagster
    eventually(lambda: all(run.ended for run in dagster.runs("squares_job")))
    before = {run.id for run in dagster.runs("squares_job")}
    served.produce("datasource", [b"%d" % number for number in range(2 * 10**9, 2 * 10**9 + 200)])

    def active_run() -> str | None:
        started = [run.id for run in dagster.runs("squares_job") if run.id not in before and run.status == "STARTED"]
        return started[0] if started else None

    died = eventually(active_run) or ""
    (daemon,) = (server["pid"] for server in served.report("status")["servers"] if server["name"] == "dagster-daemon")
    for process in (psutil.Process(daemon), *psutil.Process(daemon).children(recursive=True)):
        process.kill()
    served.eos("up")
    assert eventually(lambda: dagster.ended(died)) == "FAILURE"
    assert ORPHANED in str(dagster.events(died))
    eventually(lambda: served.count("datasink") == served.count("datasource"))
    eventually(lambda: dagster.runs("squares_job")[0].status == "SUCCESS")
    assert served.report("verify", "squares", "--full")["holds"]
