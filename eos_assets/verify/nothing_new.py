"""What a proof reports if nothing was committed since the last one."""

from collections.abc import Iterable
from dataclasses import replace

from eos_assets.declare.check import Finding
from eos_assets.verify.findings import Evidence

#: This invariant compares positions, so there is something to check without new records.
OFFSETS = "offsets_match_ledger"


def has_nothing_new(evidence: Evidence) -> bool:
    """Whether the window of a proof is empty: no ledger entry and no record in a sink since the last proof."""
    window, observations = evidence.window, evidence.observations
    committed = any(w.rows for w in window.partitions.values())
    return window.incremental and not committed and not observations["sink_records"].n


def since_proof(proven_at: str) -> str:
    return f"nothing new since the {f'proof of {proven_at}' if proven_at else 'last proof'}"


def name_last_proof(findings: Iterable[Finding], proven_at: str) -> list[Finding]:
    """The same findings; those that hold because there is nothing to check refer to the last proof."""
    return [
        replace(finding, detail=since_proof(proven_at))
        if finding.holds and finding.evaluated and finding.name != OFFSETS
        else finding
        for finding in findings
    ]


def describe_proof(evidence: Evidence, proven_at: str) -> str:
    """Up to where in the source everything is proven, and since when."""
    source = evidence.context.pipeline.source.name
    positions = {p: w.position for p, w in sorted(evidence.window.partitions.items()) if w.position is not None}
    places = ", ".join(f"{'' if n else source}/{p}@{position}" for n, (p, position) in enumerate(positions.items()))
    return f"{since_proof(proven_at)}; proven up to {places or 'the start'}"
