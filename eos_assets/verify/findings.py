"""Turn the observations of a proof into one finding per invariant."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from eos_assets.context import PipelineContext
from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode
from eos_assets.log.ledger import Amendment, LedgerEntry
from eos_assets.verify.invariants import (
    SHOWN,
    Sums,
    add_repaired,
    dropped_matches_ledger,
    ledger_matches_sink,
    ledger_tiles_source,
    letters_replayed_twice,
    offsets_match_ledger,
)
from eos_assets.verify.observations import Observations
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.window.window import Window


@dataclass(frozen=True)
class Verification:
    """One finding per invariant, and the figures of the window."""

    pipeline: str
    mode: Mode
    findings: list[Finding] = field(default_factory=list)
    #: For each source partition, the offset at which each version of the code began to write.
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


@dataclass(frozen=True)
class Evidence:
    """What one proof has read and counted: everything that its findings are made of."""

    recomputation: Recomputation
    observations: Observations

    @property
    def context(self) -> PipelineContext:
        return self.recomputation.context

    @property
    def window(self) -> Window:
        return self.recomputation.window

    @property
    def settled(self) -> bool:
        """Whether the next proof may begin where this one ends: no transaction was under way or committed meanwhile."""
        return self.window.settled and not self.observations["newer"].n

    def finding(
        self, kind: str, holds: str, broken: str, *, name: str | None = None, severity: str = "error"
    ) -> Finding:
        """The finding of an invariant that no observation of this kind may violate."""
        observed = self.observations[kind]
        detail = f"{observed.n} {broken}" if observed.n else holds
        return Finding(name or kind, not observed.n, detail, tuple(observed.examples[:SHOWN]), severity)


def evaluate(evidence: Evidence) -> Iterator[Finding]:
    """Evaluate every invariant, except those over state and open transactions."""
    yield no_duplicates(evidence)
    yield none_missing(evidence)
    yield evidence.finding("none_invented", "every visible record has a visible origin", "records without an origin")
    yield evidence.finding("ordered_within_partition", "origins rise with the sink offset", "records out of order")
    yield routed_correctly(evidence)
    if evidence.context.exactly_once:  # the ledger of a baseline delivery is not atomic with the output
        yield from ledger_findings(evidence)
    yield values_recompute(evidence)
    if evidence.context.pipeline.unique:
        yield source_is_unique(evidence)


def no_duplicates(evidence: Evidence) -> Finding:
    """No output is visible twice, and no dead letter was replayed twice."""
    holds = f"{evidence.observations['outputs_with_origin'].n:,} outputs, each origin once"
    finding = evidence.finding("no_duplicates", holds, "origins visible more than once")
    twice = letters_replayed_twice(evidence.window.repairs)
    return twice.finding("no_duplicates", holds, "dead letters replayed twice") if finding.holds else finding


def none_missing(evidence: Evidence) -> Finding:
    """No record is missing and, where records are dropped, the ledger's count of them is the recomputed one."""
    holds = f"{evidence.observations['source_records'].n:,} source records accounted for"
    finding = evidence.finding("none_missing", holds, "records missing")
    if not evidence.context.pipeline.drops or not evidence.context.exactly_once:
        return finding
    rows = (json.loads(text) for text in evidence.observations["dropped"].examples)
    dropped = {(partition, start): n for partition, start, n in rows}
    windows = evidence.window.partitions.values()
    recomputed = [entry for w in windows for entry in w.entries if entry.start >= w.recomputable.start]
    violations = dropped_matches_ledger([] if evidence.window.source_is_compacted else recomputed, dropped)
    if finding.holds and violations.count:
        return violations.finding("none_missing", holds, "transactions dropped more or less than the ledger counts")
    note = f", {sum(dropped.values()):,} of them dropped by the transform" if finding.holds else ""
    return replace(finding, detail=f"{finding.detail}{note}")


def routed_correctly(evidence: Evidence) -> Finding:
    name, broken = "routed_correctly", "records in a wrong partition"
    if not evidence.recomputation.declares_partitions:
        return evidence.finding(name, "every record is in the partition of its key", broken)
    if evidence.context.pipeline.deterministic:
        return evidence.finding(
            "moved", "every record is in the partition that the transform declares", broken, name=name
        )
    why = "not evaluated: the transform declares partitions, and is not deterministic"
    return Finding(name, True, why, evaluated=False)


def ledger_findings(evidence: Evidence) -> Iterator[Finding]:
    windows, group_offsets = evidence.window.partitions, evidence.window.group_offsets
    yield ledger_tiles_source({p: w.rows for p, w in windows.items()}, {p: w.proven for p, w in windows.items()})
    repairs = evidence.window.provable_repairs
    sums = add_repaired(sink_sums(evidence), evidence.window.repairs, repairs)
    transactions: list[LedgerEntry | Amendment] = [*evidence.window.entries, *repairs]
    yield ledger_matches_sink(transactions, sums)
    # An empty ledger beside a group offset was lost.
    known = {p: w.position for p, w in windows.items() if w.position is not None or group_offsets.get(p) is not None}
    yield offsets_match_ledger(known, group_offsets)


def sink_sums(evidence: Evidence) -> Sums:
    """Count, first, last and digest of each transaction in each sink partition, recomputed from the topics."""
    sums: Sums = {}
    for text in evidence.observations["sum"].examples:
        source_partition, start, topic, partition, count, first, last, digest = json.loads(text)
        is_dead_letter = topic == evidence.context.names.dead_letters  # the ledger keeps no digest of those
        sums[source_partition, start, topic, partition] = (count, first, last, 0 if is_dead_letter else digest)
    return sums


def values_recompute(evidence: Evidence) -> Finding:
    """The transform, run again in other ranges, gives what the sink holds: a difference of multisets both ways, which
    trusts nothing that the sink wrote about itself."""
    name, state = "values_recompute", evidence.recomputation.state
    recomputable, other_code = evidence.window.recomputable, evidence.window.other_code
    if not evidence.context.pipeline.deterministic:
        return Finding(name, True, "not evaluated: the pipeline declares deterministic=False", evaluated=False)
    if state and state.replay.reasons and not recomputable:
        return Finding(name, True, f"not evaluated: {state.replay.omissions}", evaluated=False)
    lost, more = evidence.observations["lost"], evidence.observations["too many"]
    why = "precede the known state" if state else "were written by other code"
    note = f"; {other_code:,} offsets {why} and are left out" if other_code else ""
    if lost.n or more.n:
        detail = f"compared with running the transform again, {lost.n} outputs are lost and {more.n} are too many{note}"
        return Finding(name, False, detail, (*lost.examples[: SHOWN // 2], *more.examples[: SHOWN // 2]))
    if replayed := len(evidence.recomputation.replayed_again):
        note += f"; {replayed:,} replayed record(s) compared by the code of their replay"
    if other_code and not recomputable and not replayed:
        return Finding(name, True, "not evaluated: everything was written by other code", evaluated=False)
    return Finding(name, True, f"running the transform again gives what the sink holds{note}")


def source_is_unique(evidence: Evidence) -> Finding:
    holds = "no business key twice" + " since the last proof" * evidence.window.incremental
    return evidence.finding("source_is_unique", holds, "business keys more than once", severity="warning")


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
