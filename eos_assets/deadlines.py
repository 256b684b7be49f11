"""Deadlines and polling, so that no loop keeps its own clock."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

#: How long a run keeps trying while no broker answers, unless EOS_KAFKA_WAIT_SECONDS is set.
BROKER_WAIT_SECONDS = 180


class Deadline:
    """A moment by which something must have happened."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._end

    def restart(self) -> None:
        """Allow the full time again, because there was progress."""
        self._end = time.monotonic() + self.seconds


def poll_until(condition: Callable[[], Value], seconds: float, pause: float) -> Value:
    """Evaluate a condition until it is true or the time is up, and return its last value."""
    deadline = Deadline(seconds)
    while not (value := condition()) and not deadline.passed:
        time.sleep(min(pause, deadline.remaining))
    return value
