"""What one proof found."""

from dataclasses import dataclass, field

from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode


@dataclass
class Verification:
    """What was found: one finding per invariant, and the figures behind them."""

    pipeline: str
    mode: Mode
    findings: list[Finding] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    #: True if it began where the last proof ended, False if it looked at everything.
    incremental: bool = False
    #: One row per source partition: what was looked at.
    partitions: list[dict[str, int | None]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return all(finding.holds or finding.severity == "warning" for finding in self.findings)
