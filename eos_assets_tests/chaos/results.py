"""The result of a small soak, for tests without servers."""

from eos_assets.chaos.fault_plan import KINDS, PlannedFault
from eos_assets.chaos.injector import InjectedFault
from eos_assets.chaos.result import SoakOptions, SoakResult
from eos_assets.chaos.samples import MemorySample, MemoryUse, ProgressSample, Silence
from eos_assets.declare.check import Finding


def result() -> SoakResult:
    """A soak of 60 s that passed: each kind of fault struck but the last one, which found nobody."""
    faults = [
        InjectedFault(
            PlannedFault(number, kind, number * 8.0, "before_commit", 1, 2.0),
            number * 8.0,
            number * 8.0 + 2,
            f"victim {number}" if number < len(KINDS) else "",
        )
        for number, kind in enumerate(KINDS, 1)
    ]
    return SoakResult(
        SoakOptions("squares", 60.0, 1000.0, 7, tuple(KINDS), 8.0, 1),
        faults,
        progress=[ProgressSample(float(t), 1000 * t, 900 * t, 100 * t) for t in range(60)],
        memory_samples=[MemorySample(float(t), "broker 1", 300 << 20) for t in range(60)],
        commits=[t / 4 for t in range(240)],
        loaded_at=60.0,
        seconds=80.0,
        counts={"records_loaded": 60_000},
        findings=[Finding("no_duplicates", detail="60,000 outputs, each origin once")],
        memory=[MemoryUse("broker 1", 300 << 20, 300 << 20, 310 << 20, None)],
        silences=[Silence("run", 4.5, 17.0)],
    )
