"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(condition: Callable[[], Found], seconds: float = 60, pause: float = 0.02) -> Found:
    """The first true answer of the condition; fails when none comes in time. A pause spares whom it asks."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(pause)
    return found
