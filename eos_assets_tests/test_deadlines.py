"""Deadlines and polling, on a clock that moves only while something sleeps."""

from types import SimpleNamespace

import pytest

from eos_assets import deadlines
from eos_assets.deadlines import Deadline, poll_until


class Clock:
    """A clock that records how long each sleep was."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=clock.sleep))
    return clock


def test_a_deadline_passes_when_its_time_is_up(clock: Clock) -> None:
    deadline = Deadline(2)
    assert (deadline.remaining, deadline.passed) == (2, False)
    clock.sleep(1.5)
    assert (deadline.remaining, deadline.passed) == (0.5, False)
    clock.sleep(1.5)
    assert (deadline.remaining, deadline.passed) == (0, True)


def test_a_restarted_deadline_allows_the_full_time_again(clock: Clock) -> None:
    deadline = Deadline(2)
    clock.sleep(3)
    deadline.restart()
    assert (deadline.remaining, deadline.passed) == (2, False)


def test_polling_returns_the_first_true_value(clock: Clock) -> None:
    values = iter(["", "", "ready", "never read"])
    assert poll_until(lambda: next(values), seconds=10, pause=1) == "ready"
    assert clock.sleeps == [1, 1]


def test_polling_does_not_sleep_if_the_condition_is_true(clock: Clock) -> None:
    assert poll_until(lambda: True, seconds=0, pause=1)
    assert clock.sleeps == []


def test_polling_sleeps_no_longer_than_the_deadline_and_evaluates_the_condition_once_more(clock: Clock) -> None:
    times: list[float] = []

    def condition() -> bool:
        times.append(clock.now)
        return False

    assert not poll_until(condition, seconds=2.5, pause=1)
    assert clock.sleeps == [1, 1, 0.5]
    assert times == [1000, 1001, 1002, 1002.5]


def test_a_condition_that_becomes_true_at_the_deadline_counts(clock: Clock) -> None:
    assert poll_until(lambda: clock.now >= 1002, seconds=2, pause=5)
