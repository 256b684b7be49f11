"""Jobs of a stateful pipeline: outputs, state and offsets commit together or not at all."""

import os
import signal
from pathlib import Path

from eos_assets.declare.options import Batching
from eos_assets.experiment.faults import Faults
from eos_assets.run.preview import preview
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import Lab, MakeLab
from eos_assets_tests.state.counting import assert_counted, entries, make_records, send
from eos_assets_tests.state.folds import declare_sliding


def test_transactions_killed_midway_give_what_plain_python_counts_and_every_invariant_holds(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding(batching=Batching(records=40)))
    send(lab, [*make_records(150), (b"a", b"close"), *make_records(50, 1)])
    report = lab.run(Faults(probability=0.4, seed=7, failpoint="before_commit", action="exit"), max_attempts=30)
    assert report.complete
    first_job = {entry.task_attempt for entry in report.entries if entry.run_attempt == 1}
    assert 0 not in first_job, "no first attempt of a task has survived"
    assert report.attempts > 1
    assert_counted(lab)
    assert max(entry.next - entry.start for entry in entries(lab)) <= 40, "the plan does the cutting"
    findings = lab.verify()
    assert {n for n, finding in findings.items() if not finding.holds} <= {"source_is_unique"}
    assert "keys, the state of each as folding again gives it" in findings["state_recomputes"].detail
    assert findings["values_recompute"].evaluated
    abort(lab)
    send(lab, make_records(10, 2))
    shown = preview(lab.pipeline, lab.spark, lab.connection, 10)
    lab.run()
    abort(lab)
    again = preview(lab.pipeline, lab.spark, lab.connection, 10)
    written = {(m.key(), m.value()) for m in lab.read()}
    for some_records in (shown, again):
        assert some_records, "aborted ones hide none"
        outputs = {(bytes(p.source.key), bytes(p.results[0].value)) for p in some_records}
        assert outputs <= written, "what a preview shows comes"


def abort(lab: Lab) -> None:
    """More aborted records in each partition than a preview shows."""
    for partition in lab.connection.partitions(lab.source):
        lab.produce_transaction([b"1"] * 20, commit=False, partition=partition)


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
