"""Since when something has not changed, as far as this process has seen it."""

import time
from collections.abc import Callable, Hashable


class FirstSeen:
    """When each thing was first seen with its present value."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Hashable, tuple[Hashable, float]] = {}

    def seconds(self, thing: Hashable, value: Hashable) -> float:
        """For how long the thing has had this value. None as the value forgets it."""
        if value is None:
            self._seen.pop(thing, None)
            return 0.0
        now = self._clock()
        known, since = self._seen.get(thing, (None, now))
        if known != value:
            since = now
        self._seen[thing] = (value, since)
        return now - since
