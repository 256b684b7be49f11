"""A repair that dies at any step, or beside another one, writes each missing record once."""

import os
import signal
import threading
from pathlib import Path

import pytest

from eos_assets.experiment.faults import Faults
from eos_assets.repair.plan import plan_repair
from eos_assets.repair.repair import RepairReport
from eos_assets_tests.repair.holes import keys, repair, torn, without
from eos_assets_tests.run.background import await_stopped
from eos_assets_tests.run.forgery import NUMBERS, correct_outputs, forge
from eos_assets_tests.run.lab import Lab, MakeLab


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """The squares with two holes."""
    lab = make_lab(partitions=1)
    forge(lab, torn(3)(without(7)(correct_outputs())))
    return lab


@pytest.mark.parametrize("failpoint", ["after_init", "mid_produce", "before_commit", "after_commit"])
def test_a_crash_at_each_step_leaves_each_record_once(lab: Lab, failpoint: str) -> None:
    report = repair(lab, faults=Faults(failpoint=failpoint, action="exit"))
    assert report.complete
    assert [outcome.task_attempt for outcome in report.outcomes] == [1], "the first attempt has died"
    wrote_nothing = failpoint == "after_commit"
    assert [outcome.outcome for outcome in report.outcomes] == ["already_done" if wrote_nothing else "committed"]
    assert keys(lab) == NUMBERS
    assert lab.broken() == set()


@pytest.mark.parametrize(("failpoint", "outcome"), [("before_commit", "fenced"), ("before_init", "already_done")])
def test_of_two_repairs_at_once_one_writes(lab: Lab, tmp_path: Path, failpoint: str, outcome: str) -> None:
    """Both have the same plan. The first one is stopped, and goes on after the second one has committed."""
    plan, reports = plan_repair(lab.context), list[RepairReport]()
    asleep = Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path))
    first = threading.Thread(target=lambda: reports.append(repair(lab, plan, asleep)))
    first.start()
    pid = await_stopped(tmp_path)
    assert [each.outcome for each in repair(lab, plan).outcomes] == ["committed"]
    assert first.is_alive(), "the two overlap"
    os.kill(pid, signal.SIGCONT)
    first.join(120)
    assert [each.outcome for each in reports[0].outcomes] == [outcome]
    assert keys(lab) == NUMBERS
    assert lab.broken() == set()


def test_a_run_and_a_repair_at_once_write_each_record_once(lab: Lab, tmp_path: Path) -> None:
    """The repair is stopped, and the run fences it."""
    plan, reports = plan_repair(lab.context), list[RepairReport]()
    asleep = Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path))
    first = threading.Thread(target=lambda: reports.append(repair(lab, plan, asleep)))
    first.start()
    pid = await_stopped(tmp_path)
    lab.produce([b"20"])
    assert lab.run().complete
    assert first.is_alive(), "the two overlap"
    os.kill(pid, signal.SIGCONT)
    first.join(120)
    assert [each.outcome for each in reports[0].outcomes] == ["fenced"]
    assert not reports[0].complete
    assert keys(lab) == [n for n in [*NUMBERS, 20] if n not in (3, 7)]
    assert [each.outcome for each in repair(lab, plan).outcomes] == ["committed"], "at the new position"
    assert keys(lab) == [*NUMBERS, 20]
    assert lab.broken() == set()
