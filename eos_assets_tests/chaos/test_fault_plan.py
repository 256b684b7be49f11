"""A seed always gives the same faults, and each kind occurs."""

from itertools import pairwise

import pytest

from eos_assets.chaos.fault_plan import DURATIONS, JITTER, KINDS, OPEN_STEPS, STEPS, plan_faults
from eos_assets.sink.job import FAILPOINTS


def test_a_seed_gives_the_same_plan_and_another_seed_another_one() -> None:
    plans = [plan_faults(seed, list(KINDS), seconds=600, every=10, brokers=3) for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]


@pytest.mark.parametrize("seed", range(20))
def test_each_kind_occurs_once_before_any_occurs_again(seed: int) -> None:
    kinds = [fault.kind for fault in plan_faults(seed, list(KINDS), seconds=300, every=10)]
    for low in range(0, len(kinds) - len(KINDS) + 1, len(KINDS)):
        assert set(kinds[low : low + len(KINDS)]) == set(KINDS)


@pytest.mark.parametrize("seed", range(20))
def test_faults_are_planned_for_the_whole_soak_and_not_after_it(seed: int) -> None:
    times = [0.0, *(fault.at for fault in plan_faults(seed, ["abort"], seconds=100, every=5)), 100.0]
    assert times == sorted(times)
    assert all(later - earlier <= 5 * (1 + JITTER) + 0.2 for earlier, later in pairwise(times))


def test_only_the_chosen_kinds_brokers_and_durations_occur() -> None:
    planned = plan_faults(3, ["kill-broker", "fence"], seconds=2000, every=5, brokers=3)
    assert {fault.kind for fault in planned} == {"kill-broker", "fence"}
    assert {fault.broker for fault in planned} == {1, 2, 3}
    assert {fault.step for fault in planned} == set(STEPS) <= set(FAILPOINTS)
    low, high = DURATIONS["kill-broker"]
    assert all(low <= fault.seconds <= high for fault in planned if fault.kind == "kill-broker")
    assert all(not fault.seconds for fault in planned if fault.kind == "fence")
    assert {fault.step for fault in planned if fault.kind == "fence"} == set(OPEN_STEPS)
