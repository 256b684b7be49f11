"""The result of one proof."""

from dataclasses import dataclass, field

from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode


@dataclass(frozen=True)
class Verification:
    """One finding per invariant, and the figures of the window."""

    pipeline: str
    mode: Mode
    findings: list[Finding] = field(default_factory=list)
    #: For each source partition, the offsets from which each version of the code wrote.
    versions: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    #: True if it began where the last proof ended, False if it read all that is retained.
    incremental: bool = False
    #: One row per source partition: its part of the window.
    partitions: list[dict[str, int | None]] = field(default_factory=list)
    #: Since when and up to where everything is proven, if nothing was committed since the last proof.
    nothing_new: str = ""

    @property
    def holds(self) -> bool:
        return all(finding.holds or finding.severity == "warning" for finding in self.findings)
