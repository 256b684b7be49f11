"""After crashes, zombies, concurrent runs and timeouts, a reader of committed data sees each record once.

F1, F2, … are the rows of docs/faults.md.
"""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching
from eos_assets.errors import Code
from eos_assets.experiment.faults import Faults
from eos_assets.kafka.offsets import bounds
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets.sink.job import FAILPOINTS
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import Lab, MakeLab, both_kinds, declare
from eos_assets_tests.waiting import wait_for


@both_kinds
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_crash_at_each_step_leaves_each_record_once(lab: Lab, failpoint: str) -> None:
    """F1, F2."""
    lab.fill(900)
    report = lab.run(Faults(failpoint=failpoint, action="exit"))
    assert report.complete
    assert [outcome.task_attempt for outcome in report.outcomes] == [1, 1, 1], "the first attempt of each has died"
    lab.assert_squares(range(900))
    assert lab.lag() == 0
    assert [entry.start for entry in report.entries] == [0, 0, 0], "one entry per partition, also after a crash"
    assert lab.broken() == set()


@both_kinds
def test_all_invariants_hold_after_crashes_and_failures(lab: Lab) -> None:
    """F1 with several transactions, failing ones and a killed worker; every invariant from the topics."""
    lab = lab.with_(batching=Batching(records=100))
    lab.fill(3000)
    report = lab.run(Faults(probability=0.4, seed=5, failpoint="before_commit", action="exit"), max_attempts=60)
    assert report.complete
    first_job = {entry.task_attempt for entry in report.entries if entry.run_attempt == 1}
    assert first_job, "some attempts of the first job have committed"
    assert 0 not in first_job, "and no first attempt of its tasks"
    lab.assert_squares(range(3000))
    assert lab.broken() == set()


@both_kinds
def test_with_probability_one_nothing_ever_becomes_visible(lab: Lab) -> None:
    lab.fill(300)
    report = lab.run(Faults(probability=1), max_attempts=2)
    assert not report.complete
    assert report.attempts == 2
    assert report.entries == []
    outcomes = [(row.partition, row.outcome, row.start, row.next) for row in report.summary()]
    assert outcomes == [(partition, "failed", 0, 0) for partition in range(3)]
    assert lab.read() == []
    assert {row.code for row in report.summary()} == {Code.GAVE_UP}
    injected = [f"injected into partition {partition} at offset 0" for partition in range(3)]
    assert sorted(report.failures) == sorted(injected * 2), "Spark's last attempt returns the error with its code"
    assert len(lab.read(isolation="read_uncommitted")) > 0, "they were written, and aborted"
    assert lab.run().complete
    lab.assert_squares(range(300))


@both_kinds
@pytest.mark.parametrize(
    ("failpoint", "outcome"),
    [
        pytest.param("before_commit", "fenced", id="F4, with everything produced"),
        pytest.param("before_init", "already_done", id="F5, with an old plan"),
        pytest.param("mid_read", "already_done", id="F5, with the ledger read and the group offset not"),
    ],
)
def test_a_zombie_that_wakes_after_its_successor_writes_nothing(
    make_lab: MakeLab, tmp_path: Path, failpoint: str, outcome: str
) -> None:
    lab = make_lab(partitions=1)
    lab.fill(500)
    zombie = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    assert lab.run().complete
    os.kill(pid, signal.SIGCONT)
    report = zombie.result()
    assert report.entries == []
    assert [each.outcome for each in report.outcomes] == [outcome]
    assert report.complete, "the successor did its work"
    lab.assert_squares(range(500))
    assert lab.broken() == set()


@both_kinds
def test_a_zombie_that_wakes_before_its_successor_commits_may_take_over(make_lab: MakeLab, tmp_path: Path) -> None:
    """F5, the other way round: the successor is the one that is fenced, and each range is written once."""
    lab = make_lab(partitions=1)
    lab.fill(500)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    zombie = Background(lab, Faults(failpoint="before_init", action="stop", pid_folder=str(tmp_path / "a")))
    first = await_stopped(tmp_path / "a")
    successor = Background(lab, Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path / "b")))
    second = await_stopped(tmp_path / "b")
    os.kill(first, signal.SIGCONT)
    assert zombie.result().complete
    os.kill(second, signal.SIGCONT)
    assert successor.result().complete
    assert len(zombie.result().entries) + len(successor.result().entries) == 1
    lab.assert_squares(range(500))
    assert lab.broken() == set()


@both_kinds
def test_two_runs_at_once_commit_each_range_once(make_lab: MakeLab, tmp_path: Path) -> None:
    """F6: both have planned the same range and are stopped before their first transaction. Then both go on, and are
    stopped and go on before each of the next ones."""
    lab = make_lab(partitions=1, batching=Batching(records=200))
    lab.fill(3000)
    runs, pids = [], []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        asleep = Faults(failpoint="before_init", action="stop", pid_folder=str(tmp_path / name))
        runs.append(Background(lab, asleep))
        pids.append(await_stopped(tmp_path / name))
    assert lab.read() == []
    while any(run.thread.is_alive() for run in runs):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        runs[0].thread.join(0.02)
    assert all(run.result().complete for run in runs)
    lab.assert_squares(range(3000))
    assert lab.broken() == set()


@both_kinds
def test_a_transaction_that_times_out_is_aborted_and_tried_again(make_lab: MakeLab, tmp_path: Path) -> None:
    """F11: a task that sleeps through its transaction timeout."""
    lab = make_lab(partitions=1, batching=Batching(timeout_ms=2000))
    lab.fill(200)
    slow = Background(lab, Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    wait_for(lambda: any(each.high > each.stable for each in bounds(lab.connection, lab.sink).values()))
    wait_for(lambda: all(each.high == each.stable for each in bounds(lab.connection, lab.sink).values()))
    os.kill(pid, signal.SIGCONT)
    report = slow.result()
    assert report.complete
    assert report.entries[0].task_attempt == 1, "the first attempt was lost"
    lab.assert_squares(range(200))
    assert lab.broken() == set()


def test_a_run_whose_transactions_all_time_out_names_the_cause(make_lab: MakeLab, tmp_path: Path) -> None:
    """F11: every attempt of the task sleeps through its timeout, so the run ends and names the cause."""
    lab = make_lab(partitions=1, batching=Batching(timeout_ms=2000))
    lab.fill(200)
    asleep = Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path), always=True)
    run = Background(lab, asleep, max_attempts=1)

    def aborted() -> bool:
        return all(each.high == each.stable > 0 for each in bounds(lab.connection, lab.sink).values() if each.high)

    while run.thread.is_alive():
        for file in tmp_path.glob("*.pid"):
            pid = int(file.read_text() or 0)
            wait_for(aborted)
            file.unlink()
            os.kill(pid, signal.SIGCONT)
        run.thread.join(0.1)
    report = run.result()
    assert not report.complete
    assert "the broker aborted a transaction that was open for longer than 2000 ms" in report.failures[-1]
    assert lab.read() == []
    assert lab.run().complete
    lab.assert_squares(range(200))
    assert lab.broken() == set()


def test_the_first_transaction_of_a_cluster_waits_for_its_coordinator(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """A cold `init_transactions`: the topic of transactions does not exist yet."""
    with KafkaCluster(tmp_path, settings=settings) as cluster:
        lab = Lab(spark, cluster.connection, declare())
        lab.create()
        lab.fill(300)
        assert "__transaction_state" not in lab.connection.metadata().topics
        report = lab.run()
        assert report.complete
        assert report.attempts == 1
        lab.assert_squares(range(300))
        assert lab.broken() == set()


def test_the_baseline_deliveries_double_and_lose_and_the_checks_find_it(lab: Lab) -> None:
    """S6: the same failures in all three modes."""
    lab.fill(300)
    failures = Faults(failpoint="before_commit", action="raise")
    assert lab.run(failures).complete
    lab.assert_squares(range(300))
    for mode in (Mode.AT_LEAST_ONCE, Mode.AT_MOST_ONCE):
        lab.create(mode)
        assert lab.run(failures, mode=mode).complete
    doubled = lab.read(f"{lab.sink}.at_least_once")
    assert len(doubled) > 300
    assert {"no_duplicates", "values_recompute"} <= lab.broken(Mode.AT_LEAST_ONCE)
    lost = lab.read(f"{lab.sink}.at_most_once")
    assert len(lost) < 300
    assert {"none_missing", "values_recompute"} <= lab.broken(Mode.AT_MOST_ONCE)
    lab.assert_squares(range(300))
