"""Injected failures repeat by their seed."""

import pytest

from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults, InjectedFailure


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
