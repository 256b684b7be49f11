"""The verdict: quiet about what each delivery promises, loud about all else."""

import pytest

from eos_assets.declare.modes import Mode
from eos_assets.experiment.cell import Result
from eos_assets.experiment.verdict import problems
from eos_assets_tests.experiment.samples import result, typical_experiment

EO, ALO, AMO = Mode.EXACTLY_ONCE, Mode.AT_LEAST_ONCE, Mode.AT_MOST_ONCE


def test_each_delivery_may_do_what_it_is_known_for() -> None:
    assert problems(typical_experiment().results) == []


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (result(EO, duplicates=1), "1 records doubled"),
        (result(EO, lost=2), "2 records lost"),
        (result(EO, out_of_order=3), "3 records out of order"),
        (result(EO, wrong=1), "no squares"),
        (result(EO, undelivered=1), "although the run says that it is complete"),
        (result(EO, probability=1, complete=False, visible=5), "5 records are visible"),
        (result(EO, probability=0, complete=False), "did not come to its end"),
        (result(EO, retries=0), "none struck"),
        (result(ALO), "doubled nothing"),
        (result(ALO, kind="kill"), "doubled nothing"),
        (result(ALO, duplicates=5, lost=1), "lost 1"),
        (result(ALO, probability=0, duplicates=5), "without failures"),
        (result(AMO), "lost nothing"),
        (result(AMO, kind="kill"), "lost nothing"),
        (result(AMO, lost=5, duplicates=1), "doubled 1"),
        (result(AMO, probability=0, lost=5), "without failures"),
    ],
)
def test_every_broken_promise_is_named(broken: Result, told: str) -> None:
    (problem,) = problems([broken])
    assert told in problem
    assert str(broken.cell.mode) in problem


def test_failures_behind_the_commit_need_to_harm_nobody() -> None:
    assert problems([result(mode, kind="after_commit") for mode in (EO, ALO, AMO)]) == []


def test_giving_up_is_no_loss() -> None:
    assert problems([result(EO, probability=0.9, complete=False, visible=40, undelivered=60)]) == []
