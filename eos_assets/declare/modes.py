"""The delivery modes: exactly once, and the two baseline deliveries to compare it with."""

from enum import StrEnum


class Mode(StrEnum):
    """How often a source record takes effect when there are failures."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
