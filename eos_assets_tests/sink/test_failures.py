"""Faults by chance: when they strike is a pure function, where they strike is their kind."""

import pytest

from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching
from eos_assets.errors import EosError
from eos_assets.experiment.faults import KINDS, Faults, InjectedFailure
from eos_assets_tests.run.lab import Lab


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(EosError, match="Failure kind during_lunch is not valid"):
        Faults(kind="during_lunch")


def test_every_kind_strikes_the_same_transactions() -> None:
    places = [
        (partition, start, run, task) for partition in (0, 1) for start in (0, 99) for run in (1, 2) for task in (0, 3)
    ]
    drawn = [[Faults(0.5, 3, kind=kind).strikes(*place) for place in places] for kind in KINDS]
    assert drawn[0] == drawn[1] == drawn[2]
    assert 0 < sum(drawn[0]) < len(places)


def test_a_failure_comes_on_its_side_of_the_commit() -> None:
    place = (0, 0, 1, 0)
    before, after = Faults(1), Faults(1, kind="after_commit")
    with pytest.raises(InjectedFailure):
        before.fail_transaction(*place)
    before.fail_committed(*place)
    after.fail_transaction(*place)
    with pytest.raises(InjectedFailure, match="after the commit"):
        after.fail_committed(*place)


def test_what_was_committed_before_the_failure_is_found_done_by_the_retry(lab: Lab) -> None:
    lab = lab.with_(batching=Batching(records=60))
    lab.fill(300)
    report = lab.run(Faults(1, kind="after_commit"))
    assert report.complete
    lab.assert_squares(range(300))
    assert len(lab.read(isolation="read_uncommitted")) == 300, "no retry wrote anything again"
    tries = {(entry.run_attempt, entry.task_attempt, entry.partition) for entry in report.entries}
    assert len(tries) == len(report.entries), "each attempt committed one slice and then failed"


def test_a_worker_killed_by_chance_leaves_each_record_once(lab: Lab) -> None:
    lab.fill(300)
    report = lab.run(Faults(0.5, seed=2, kind="kill"))
    assert report.complete
    lab.assert_squares(range(300))
    assert len(lab.read(isolation="read_uncommitted")) > 300, "somebody was killed with records written"


def test_at_most_once_loses_the_slices_that_failed_and_no_other(lab: Lab) -> None:
    """Its offsets are committed slice by slice, so that a failure costs as much as it costs the other modes."""
    lab = lab.with_(batching=Batching(records=20))
    lab.create(Mode.AT_MOST_ONCE)
    lab.fill(300)
    assert lab.run(Faults(failpoint="before_commit"), mode=Mode.AT_MOST_ONCE).complete
    left = len(lab.read(f"{lab.sink}.at_most_once"))
    assert 300 - 3 * 20 <= left < 300, "the first slice of each partition"
