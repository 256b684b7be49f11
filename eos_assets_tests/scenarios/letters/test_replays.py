"""Letters are replayed exactly once, however often, concurrently or interrupted. F1, F4, F6."""

import os
import signal
import threading
from pathlib import Path

import pytest

from eos_assets.experiment.faults import Faults
from eos_assets.letters.marking import LetterReport
from eos_assets.log.ledger import REPLAYED
from eos_assets.sink.job import NoFaults
from eos_assets_tests.letters.replays import replay, run_with_letters
from eos_assets_tests.run import background
from eos_assets_tests.run.background import await_stopped
from eos_assets_tests.run.lab import Lab, MakeLab


@pytest.mark.parametrize("failpoint", ["after_init", "mid_produce", "before_commit", "after_commit"])
def test_a_crash_at_each_step_of_a_replay_delivers_each_letter_once(make_lab: MakeLab, failpoint: str) -> None:
    lab = run_with_letters(make_lab)
    report = replay(lab, faults=Faults(failpoint=failpoint, action="exit"))
    assert sorted(report.marked(REPLAYED)) == [(0, 1)]
    assert [entry.task_attempt for entry in report.entries] == [int(failpoint != "after_commit")], "the first has died"
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"9", b"A", b"a"]
    assert lab.broken() == set()


class Background:
    """A replay in a thread of its own."""

    def __init__(self, lab: Lab, faults: NoFaults) -> None:
        self.report: LetterReport | None = None

        def work() -> None:
            self.report = replay(lab, faults=faults)

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def result(self) -> LetterReport:
        self.thread.join(120)
        assert self.report is not None
        return self.report


@pytest.mark.parametrize("failpoint", ["before_init", "before_commit"])
def test_two_replays_at_once_deliver_each_letter_once(make_lab: MakeLab, tmp_path: Path, failpoint: str) -> None:
    """The first one is stopped in the middle, and wakes up after the second one has committed."""
    lab = run_with_letters(make_lab)
    first = Background(lab, Faults(failpoint=failpoint, action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    second = replay(lab)
    assert sorted(second.marked(REPLAYED)) == [(0, 1)]
    assert first.report is None, "the two overlap"
    os.kill(pid, signal.SIGCONT)
    report = first.result()
    assert report.marked(REPLAYED) == {}
    assert (0, 1) in report.marked_by_others
    if failpoint == "before_commit":
        assert any("newer attempt" in failure for failure in report.failures), "it was fenced"
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"9", b"A", b"a"]
    assert lab.broken() == set()


def test_a_replay_during_a_run_disturbs_neither(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = run_with_letters(make_lab)
    lab.produce([b"7", b"8"])
    run = background.Background(lab, Faults(failpoint="before_commit", action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    assert sorted(replay(lab).marked(REPLAYED)) == [(0, 1)]
    os.kill(pid, signal.SIGCONT)
    report = run.result()
    assert report.complete
    assert [outcome.outcome for outcome in report.outcomes] == ["fenced", "committed"]
    assert report.seconds < 20, "it does not wait for the replay's next transaction"
    assert sorted(value or b"" for value in lab.values()) == [b"1", b"25", b"7", b"8", b"9", b"A", b"a"]
    assert lab.broken() == set()
