"""What the samples of a soak say about silence and memory."""

import pytest

from eos_assets.chaos.samples import LEAST_SECONDS, MemorySample, Silence, longest_silence, memory_use

MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("moments", "silence"),
    [
        ([], Silence("run", 10.0, 0.0)),
        ([1, 2, 9], Silence("run", 7.0, 2)),
        ([1, 2, 3], Silence("run", 7.0, 3)),
        ([9, 10], Silence("run", 9.0, 0.0)),
    ],
)
def test_the_longest_silence_includes_the_beginning_and_the_end(moments: list[float], silence: Silence) -> None:
    assert longest_silence("run", moments, 10.0) == silence


def samples(first: int, last: int, seconds: float) -> list[MemorySample]:
    """The memory of one role, which changes in the middle of the last two thirds."""
    return [
        MemorySample(t, "run", (first if t < seconds * 2 / 3 else last) * MEGABYTE) for t in range(0, int(seconds), 5)
    ]


@pytest.mark.parametrize(("last", "flat"), [(1000, True), (1200, True), (1300, False), (500, True)])
def test_memory_is_flat_if_the_last_third_needs_about_what_the_middle_one_did(last: int, flat: bool) -> None:
    (use,) = memory_use(samples(1000, last, LEAST_SECONDS), LEAST_SECONDS)
    assert (use.role, use.middle, use.end) == ("run", 1000 * MEGABYTE, last * MEGABYTE)
    assert use.flat is flat


def test_a_short_soak_does_not_decide_about_memory() -> None:
    (use,) = memory_use(samples(100, 900, 60), 60)
    assert use.flat is None
    assert use.highest == 900 * MEGABYTE
