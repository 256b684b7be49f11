"""The result of a soak: what was done, what was observed, and everything that is wrong."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from eos_assets.chaos.checker import Anomaly
from eos_assets.chaos.injector import InjectedFault
from eos_assets.chaos.samples import MemorySample, MemoryUse, ProgressSample, Silence
from eos_assets.declare.check import Finding


@dataclass(frozen=True)
class SoakOptions:
    """What a user may choose for one soak."""

    pipeline: str
    seconds: float
    rate: float
    seed: int
    kinds: tuple[str, ...]
    every: float
    brokers: int


@dataclass
class SoakResult:
    """Everything that one soak did and found. Times are in seconds since its start."""

    options: SoakOptions
    faults: list[InjectedFault] = field(default_factory=list)
    progress: list[ProgressSample] = field(default_factory=list)
    memory_samples: list[MemorySample] = field(default_factory=list)
    #: When each transaction was committed.
    commits: list[float] = field(default_factory=list)
    #: When loading and faults ended, and when everything was proven.
    loaded_at: float = 0.0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    memory: list[MemoryUse] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    #: What went wrong in the soak itself, so that it proves less than it should.
    failures: list[str] = field(default_factory=list)

    @property
    def struck(self) -> Counter[str]:
        """How often each kind of fault has struck."""
        return Counter(fault.planned.kind for fault in self.faults if fault.struck)

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, one sentence each; empty if the soak has passed."""
        broken = [each for each in self.findings if not each.holds and each.severity == "error"]
        grown = [use for use in self.memory if use.flat is False]
        return [
            *self.failures,
            *(f"Invariant {each.name} is broken: {each.detail}." for each in broken),
            *(f"The history has an anomaly: {anomaly}." for anomaly in self.anomalies),
            *(f"The memory of {use.role} grew from {use.middle:,} to {use.end:,} bytes." for use in grown),
        ]

    def row(self) -> dict[str, Any]:
        """The result as plain data, without the single samples."""
        return {
            "holds": not self.problems,
            "problems": self.problems,
            "options": asdict(self.options),
            "seconds": round(self.seconds, 1),
            "struck": dict(self.struck),
            "counts": self.counts,
            "faults": [
                {**asdict(fault.planned), **asdict(fault), "planned": fault.planned.at} for fault in self.faults
            ],
            "findings": [asdict(finding) for finding in self.findings],
            "anomalies": [asdict(anomaly) for anomaly in self.anomalies],
            "memory": [asdict(use) for use in self.memory],
            "silences": [asdict(silence) for silence in self.silences],
        }
