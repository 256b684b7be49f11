"""What a soak samples: positions, lag and the memory of its processes; and what they say about silence and growth."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import psutil

#: A role may use this much more memory at the end than in the middle of a soak, and this many bytes on top of it.
GROWTH, SLACK_BYTES = 1.2, 64 << 20
#: In a shorter soak the memory of the JVMs is still growing to its limit.
LEAST_SECONDS = 600.0


@dataclass(frozen=True)
class ProgressSample:
    """What was loaded, committed and read at one moment, in seconds since the start of the soak."""

    time: float
    loaded: int
    #: The sum of the positions of all source partitions.
    committed: int
    lag: int
    received: int


@dataclass(frozen=True)
class MemorySample:
    """The resident memory of all processes of one role at one moment."""

    time: float
    role: str
    bytes: int


@dataclass(frozen=True)
class MemoryUse:
    """The memory of one role over a soak. Its processes may have been killed and started again meanwhile."""

    role: str
    middle: int
    end: int
    highest: int
    #: None if the soak was too short to decide.
    flat: bool | None


@dataclass(frozen=True)
class Silence:
    """The longest time in which a command reported no progress although there was something to do."""

    command: str
    seconds: float
    #: When it began, in seconds since the start of the soak.
    began: float


def resident_bytes(processes: Iterable[psutil.Process]) -> int:
    """The resident memory of these processes. Those that have ended have none."""
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def memory_use(samples: Iterable[MemorySample], seconds: float) -> list[MemoryUse]:
    """The memory of each role: flat if the last third of the soak needed about what the middle third did."""
    by_role: dict[str, list[MemorySample]] = {}
    for sample in samples:
        by_role.setdefault(sample.role, []).append(sample)
    return [role_use(role, role_samples, seconds) for role, role_samples in by_role.items()]


def role_use(role: str, samples: Sequence[MemorySample], seconds: float) -> MemoryUse:
    middle = median_bytes(s.bytes for s in samples if seconds / 3 <= s.time < 2 * seconds / 3)
    end = median_bytes(s.bytes for s in samples if 2 * seconds / 3 <= s.time <= seconds)
    flat = end <= middle * GROWTH + SLACK_BYTES if seconds >= LEAST_SECONDS else None
    return MemoryUse(role, middle, end, max(s.bytes for s in samples), flat)


def median_bytes(values: Iterable[int]) -> int:
    ordered = list(values)
    return int(median(ordered)) if ordered else 0


def longest_silence(
    command: str,
    samples: Sequence[ProgressSample],
    progress: Callable[[ProgressSample], int],
    is_busy: Callable[[ProgressSample], bool],
) -> Silence:
    """The longest time from one progress to the next one, or to the last sample, while there was something to do."""
    longest = Silence(command, 0.0, 0.0)
    since = samples[0].time if samples else 0.0
    for before, after in pairwise(samples):
        if not is_busy(before):
            since = before.time
        if after.time - since > longest.seconds:
            longest = Silence(command, round(after.time - since, 1), round(since, 1))
        if progress(after) != progress(before):
            since = after.time
    return longest
