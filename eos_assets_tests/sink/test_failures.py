"""Injected failures: what was committed stays, and a retry writes the rest."""

from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching
from eos_assets.experiment.faults import Faults
from eos_assets_tests.run.lab import Lab


def test_a_retry_does_not_write_again_what_was_committed_before_the_failure(lab: Lab) -> None:
    lab = lab.with_(batching=Batching(records=60))
    lab.fill(300)
    report = lab.run(Faults(1, kind="after_commit"))
    assert report.complete
    lab.assert_squares(range(300))
    assert len(lab.read(isolation="read_uncommitted")) == 300, "no retry wrote anything again"
    tries = {(entry.run_attempt, entry.task_attempt, entry.partition) for entry in report.entries}
    assert len(tries) == len(report.entries), "each attempt committed one transaction batch and then failed"


def test_a_worker_killed_by_chance_leaves_each_record_once(lab: Lab) -> None:
    lab.fill(300)
    report = lab.run(Faults(0.5, seed=2, kind="kill"))
    assert report.complete
    lab.assert_squares(range(300))
    assert len(lab.read(isolation="read_uncommitted")) > 300, "a worker was killed after it had written records"


def test_at_most_once_loses_the_batches_that_failed_and_no_other(lab: Lab) -> None:
    """Its offsets are committed batch by batch, so that a failure costs as much as it costs the other modes."""
    lab = lab.with_(batching=Batching(records=20))
    lab.create(Mode.AT_MOST_ONCE)
    lab.fill(300)
    assert lab.run(Faults(failpoint="before_commit"), mode=Mode.AT_MOST_ONCE).complete
    left = len(lab.read(f"{lab.sink}.at_most_once"))
    assert 300 - 3 * 20 <= left < 300, "the first batch of each partition"
