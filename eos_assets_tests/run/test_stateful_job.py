"""Jobs of a stateful pipeline: outputs, state and offsets commit together or not at all."""

import os
import signal
from pathlib import Path

from eos_assets.experiment.faults import Faults
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.state.counting import assert_counted, entries, make_records, send
from eos_assets_tests.state.folds import declare_sliding


def test_a_plan_whose_state_was_loaded_elsewhere_is_stale(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(pipeline=declare_sliding(partitions=1))
    send(lab, make_records(60))
    zombie = Background(lab, Faults(failpoint="before_init", action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    try:
        assert lab.run(max_records=30).complete
    finally:
        os.kill(pid, signal.SIGCONT)
    late = zombie.result()
    assert [o.outcome for o in late.outcomes] == ["stale", "committed"]
    assert [(e.start, e.next) for e in entries(lab)] == [(0, 30), (30, 60)]
    assert_counted(lab)
