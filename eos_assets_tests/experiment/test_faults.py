"""Injected failures repeat by their seed, and strike before or after the commit as declared."""

import pytest

from eos_assets.errors import EosError
from eos_assets.experiment.faults import KINDS, Faults, InjectedFailure


def test_failures_repeat_by_seed_and_do_not_fail_for_ever() -> None:
    def fails(seed: int, run_attempt: int) -> bool:
        try:
            Faults(probability=0.5, seed=seed).fail_transaction(0, 1000, run_attempt, 0)
        except InjectedFailure:
            return True
        return False

    for seed in range(20):
        drawn = [fails(seed, attempt) for attempt in range(1, 40)]
        assert drawn == [fails(seed, attempt) for attempt in range(1, 40)]
        assert 5 < sum(drawn) < 35


@pytest.mark.parametrize("probability", [-0.1, 1.1])
def test_a_probability_outside_is_refused(probability: float) -> None:
    with pytest.raises(EosError, match="is not valid"):
        Faults(probability=probability)


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
