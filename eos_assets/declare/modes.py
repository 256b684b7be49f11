"""The delivery modes: exactly once, and the two baseline deliveries to compare it with."""

from enum import StrEnum


class Mode(StrEnum):
    """How often a failure lets a source record take effect."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
