"""Balances: to the cent, per account, whatever goes wrong on the way."""

import random

import pytest

from eos_assets.exactly_once.failures import FAILPOINTS, Failures
from eos_assets_tests.exactly_once.lab import MakeLab
from eos_assets_tests.pipelines.bank import Bank, own_balances


@pytest.fixture
def bank(make_lab: MakeLab) -> Bank:
    return Bank(make_lab(pipeline=own_balances()))


def some(bank: Bank, count: int, seed: int) -> list[dict[str, str]]:
    drawn = random.Random(seed)
    return [
        bank.transaction(f"acc-{drawn.randrange(12)}", f"{drawn.randrange(-40_000, 40_000) / 100:.2f}")
        for _ in range(count)
    ]


def test_after_a_kill_at_each_step_every_balance_is_right_to_the_cent(bank: Bank) -> None:
    for seed, failpoint in enumerate(FAILPOINTS):
        bank.send(some(bank, 50, seed))
        report = bank.lab.run(Failures(failpoint=failpoint, action="exit"))
        assert report.complete, failpoint
    assert bank.rejected, "some must go below the lowest balance"
    bank.assert_booked()
    assert bank.lab.broken() == set()
