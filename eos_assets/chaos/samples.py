"""What a soak samples: positions, lag and the memory of its processes; and what they say about silence and growth."""

from collections.abc import Iterable, Sequence
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
    """What was loaded and committed at one moment, in seconds since the start of the soak."""

    time: float
    loaded: int
    #: The sum of the positions of all source partitions.
    committed: int
    lag: int


@dataclass(frozen=True)
class MemorySample:
    """The memory of all processes of one role at one moment."""

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
    """The longest time in which a command made no progress although there was something to do."""

    command: str
    seconds: float
    #: When it began, in seconds since the start of the soak.
    began: float


def memory_of(processes: Iterable[psutil.Process]) -> int:
    """The memory of these processes. What several of them share is counted once, where the system knows it (Linux);
    those that have ended have none."""
    total = 0
    for process in processes:
        try:
            memory = process.memory_full_info()
        except psutil.Error:
            continue
        total += getattr(memory, "pss", memory.rss)
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


def longest_silence(command: str, moments: Iterable[float], end: float) -> Silence:
    """The longest time without progress, of which these are the moments, from the start of the soak to `end`."""
    steps = pairwise([0.0, *sorted(moment for moment in moments if 0 <= moment < end), end])
    began, until = max(steps, key=lambda step: step[1] - step[0])
    return Silence(command, round(until - began, 1), round(began, 1))


def progress_moments(samples: Iterable[ProgressSample]) -> list[float]:
    """The moments at which more was loaded than before."""
    return [after.time for before, after in pairwise(samples) if after.loaded > before.loaded]
