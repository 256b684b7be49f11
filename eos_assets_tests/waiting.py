"""Waiting for a condition, with a deadline."""

from collections.abc import Callable
from typing import TypeVar

from eos_assets.deadlines import poll_until

Value = TypeVar("Value")


def wait_for(condition: Callable[[], Value], seconds: float = 60, pause: float = 0.02) -> Value:
    """Return the first true value of the condition, or fail at the deadline. A longer pause spares the server."""
    value = poll_until(condition, seconds, pause)
    assert value, f"not within {seconds} s"
    return value
