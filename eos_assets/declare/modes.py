"""The three delivery semantics, side by side."""

from enum import StrEnum


class Mode(StrEnum):
    """What a failure does to the data: nothing, doubles it, or loses it."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
