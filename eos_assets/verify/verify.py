"""Prove a pipeline: read source, sink, dead letters and ledger from the brokers and evaluate every invariant."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.deadlines import poll_until
from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds_of
from eos_assets.kafka.open_transactions import describe_open_transactions
from eos_assets.kafka.reader import PartitionId, read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import Amendment, Genesis, LedgerEntry, LetterEntry
from eos_assets.run.preflight.permissions import check_permissions
from eos_assets.state.snapshot import Snapshot
from eos_assets.transform.business_key import check_business_key
from eos_assets.transform.spark_errors import classify
from eos_assets.verify import checkpoint
from eos_assets.verify.findings import (
    Evidence,
    Verification,
    describe_proof,
    evaluate,
    has_nothing_new,
    name_last_proof,
)
from eos_assets.verify.invariants import Violations, code_versions
from eos_assets.verify.last_proof import record_proof
from eos_assets.verify.observations import Observations
from eos_assets.verify.provenance_frame import raise_foreign_map
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.rows.comparison import RowComparison
from eos_assets.verify.scope import PartitionScope, ProofScope
from eos_assets.verify.state_checker import StateChecker
from eos_assets.verify.state_replay import plan_replay
from eos_assets.verify.topic_frames import TopicFrames
from eos_assets.verify.totals.comparison import TotalsComparison
from eos_assets.verify.window.reader import FOREVER, read_window
from eos_assets.verify.window.window import TopicBounds, Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)


def verify_pipeline(
    pipeline: Pipeline,
    spark: "SparkSession",
    connection: Connection,
    *,
    mode: Mode = Mode.EXACTLY_ONCE,
    isolation: str = "read_committed",
    full: bool = False,
    lake: str | None = None,
) -> Verification:
    """Evaluate every invariant on what was written since the last proof or, in full, on all that is retained.

    It writes only its outcome and, if everything holds, the checkpoint at which the next proof begins.
    """
    started = time.monotonic()
    context = PipelineContext(pipeline, spark, connection, mode)
    committed = isolation == "read_committed"
    check_permissions(pipeline, connection, mode, writes=False)
    check_business_key(pipeline, spark)
    recomputation = plan_recomputation(context, read_window(context, full=full or not committed), lake)
    evidence = Evidence(recomputation, observe(recomputation, isolation))
    findings, nothing_new = evaluate_records(evidence)
    findings += evaluate_state(recomputation)
    findings.append(check_open_transactions(context, evidence.window.bounds, started, wait=committed))
    verification = Verification(
        pipeline.name,
        mode,
        findings,
        versions=code_versions(read_whole_ledger(context, evidence.window)),
        figures=figures(evidence),
        incremental=evidence.window.incremental,
        partitions=partition_rows(evidence.window),
        nothing_new=nothing_new,
    )
    if committed and context.exactly_once:
        record_outcome(evidence, verification)
    log_result(verification, time.monotonic() - started)
    return verification


def record_outcome(evidence: Evidence, verification: Verification) -> None:
    """Write the outcome of a proof and, if everything holds, the checkpoint where the next one begins."""
    kafka, names, ends = evidence.context.kafka, evidence.context.names, evidence.window.ends
    if verification.holds and evidence.settled:
        write_checkpoint = checkpoint.renew if verification.nothing_new else checkpoint.store
        write_checkpoint(kafka, names, ends)
    ledger_end = ends.get((names.ledger, 0), 0)
    record_proof(kafka, names, ledger_end, holds=verification.holds, findings=verification.findings)


def plan_recomputation(context: PipelineContext, window: Window, lake: str | None) -> Recomputation:
    """Decide what can be recomputed within a window. For a stateful pipeline that is what can be folded again."""
    if not context.pipeline.stateful:
        return Recomputation(TopicFrames(context, window))
    snapshot = Snapshot(context, lake) if lake else None
    replay = plan_replay(context, window, snapshot)
    return Recomputation(TopicFrames(context, replay.restrict(window)), StateChecker(context, replay, snapshot))


def observe(recomputation: Recomputation, isolation: str) -> Observations:
    """Compare totals; if they differ or cannot decide, compare every row."""
    context, window = recomputation.context, recomputation.window
    by_totals = context.exactly_once and isolation == "read_committed" and not window.source_is_compacted
    scope = scope_of(recomputation)
    try:
        observations = TotalsComparison(recomputation, scope).observe() if by_totals else None
        return RowComparison(recomputation, scope, isolation).observe() if observations is None else observations
    except EosError:
        raise
    except Exception as failure:
        raise_foreign_map(failure, context.kafka, context.names.provenance)
        raise EosError(
            f"Pipeline {context.pipeline.name} could not be proven to the end: {classify(failure).described}",
            "If the current transform raises on records that an earlier one accepted, correct it or declare another "
            "code_version. No invariant was evaluated.",
        ) from failure


def evaluate_records(evidence: Evidence) -> tuple[list[Finding], str]:
    """The findings over records and ledger. If nothing is new, they refer to the last proof, and a text names it."""
    findings = list(evaluate(evidence))
    if not has_nothing_new(evidence):
        return findings, ""
    proven_at = checkpoint.proven_at(evidence.context.kafka, evidence.context.names, evidence.window.ends)
    return name_last_proof(findings, proven_at), describe_proof(evidence, proven_at)


def evaluate_state(recomputation: Recomputation) -> list[Finding]:
    """The finding over the state of a stateful pipeline."""
    if recomputation.state is None:
        return []
    ranges = recomputation.state.replay.ranges
    return [recomputation.state.state_recomputes(recomputation.source_records(ranges) if ranges else None)]


def scope_of(recomputation: Recomputation) -> ProofScope:
    """The window as plain data, for the checkers and passes."""
    frames, window, pipeline = recomputation.frames, recomputation.window, recomputation.context.pipeline
    numbers = {topic: number for number, topic in enumerate(frames.topics)}
    return ProofScope(
        partitions={
            p: PartitionScope(
                start=w.start,
                end=w.end if recomputation.context.exactly_once else FOREVER,
                source_start=w.source.start,
                recompute_start=w.recomputable.start,
                proven=w.proven or 0,
                transactions=tuple(entry.start for entry in w.entries) if pipeline.drops else (),
            )
            for p, w in window.partitions.items()
        },
        topics=frames.topics,
        sink_partitions=frames.sink_partitions,
        expired={(numbers[t], p): last for (t, p), last in window.expired.items() if t in numbers},
        shared_sink=pipeline.shared_sink,
        declares_partitions=recomputation.declares_partitions,
        drops=pipeline.drops,
        compares_dead_letters=recomputation.compares_dead_letters,
        incremental=window.incremental,
        source_is_compacted=window.source_is_compacted,
        replayed=frozenset(window.replayed()),
        replayed_again=frozenset(window.replayed(pipeline.code_version)),
        replays={(e.partition, e.start): e.replayed for e in window.repairs if isinstance(e, LetterEntry)},
    )


def read_whole_ledger(context: PipelineContext, window: Window) -> Iterator[LedgerEntry]:
    """All entries of the ledger, also those before the last proof: they show which code wrote what."""
    proven = {p: window.starts.get((context.names.ledger, p), 0) for p in window.partitions}
    for message in read_partitions(context.kafka, {(context.names.ledger, p): 0 for p, end in proven.items() if end}):
        if (message.offset() or 0) < proven[message.partition() or 0]:
            yield from entries_of([ledger.read(message)])
    for w in window.partitions.values():
        yield from entries_of(w.rows)


def entries_of(rows: Iterable[Genesis | LedgerEntry | Amendment]) -> Iterator[LedgerEntry]:
    return (row for row in rows if isinstance(row, LedgerEntry))


def figures(evidence: Evidence) -> dict[str, int]:
    observations = evidence.observations
    names = ("source_records", "sink_records", "outputs_with_origin")
    unprovable = evidence.window.unprovable + observations["vanished"].n
    return {**{name: observations[name].n for name in names}, "no_longer_provable": unprovable}


def partition_rows(window: Window) -> list[dict[str, int | None]]:
    return [
        {
            "partition": p,
            "from": w.start,
            "upto": w.end,
            "position": w.position,
            "group_offset": window.group_offsets.get(p),
        }
        for p, w in sorted(window.partitions.items())
    ]


def log_result(verification: Verification, seconds: float) -> None:
    """One line for the proof and one for each invariant that is violated."""
    fields = {"pipeline": verification.pipeline, "mode": str(verification.mode)}
    window = "since the last proof" if verification.incremental else "all that is retained"
    logger.info(
        "The proof of pipeline %s %s (%s, %.1f s).",
        verification.pipeline,
        "holds" if verification.holds else "fails",
        window,
        seconds,
        extra={
            **fields,
            "event": "proof",
            "window": verification.partitions,
            "holds": verification.holds,
            "seconds": seconds,
        },
    )
    for finding in verification.findings:
        if not finding.holds:
            logger.warning(
                "Invariant %s of pipeline %s is violated: %s.",
                finding.name,
                verification.pipeline,
                finding.detail,
                extra={**fields, "invariant": finding.name, "severity": finding.severity},
            )


#: Brokers look for transactions that outlived their timeout every ten seconds.
SWEEP_SECONDS = 10.0
POLL_SECONDS = 0.5


def check_open_transactions(context: PipelineContext, before: TopicBounds, started: float, *, wait: bool) -> Finding:
    """Wait until every transaction that was open in the window has ended or outlived its timeout.

    Args:
        context: whose topics they are.
        before: the bounds of the window.
        started: when the proof started, on the monotonic clock.
        wait: without it, what is open now may still end.
    """
    timeout = context.pipeline.batching.timeout_ms / 1000
    remaining = started + timeout + SWEEP_SECONDS - time.monotonic() if wait else 0.0
    after = before

    def have_ended() -> bool:
        nonlocal after
        after = read_bounds(context, before)
        return not held_back(before, after)

    poll_until(have_ended, max(0.0, remaining), POLL_SECONDS)
    seconds = time.monotonic() - started
    stuck = held_back(before, after) if seconds >= timeout else []
    holders = describe_open_transactions(context.kafka, {(topic, p): now for topic, p, now in stuck})
    return no_open_transactions(before, after, seconds, timeout, holders)


def read_bounds(context: PipelineContext, before: TopicBounds) -> TopicBounds:
    """The current bounds of the same partitions."""
    current = bounds_of(context.kafka, [(topic, p) for topic, partitions in before.items() for p in partitions])
    return {topic: {p: current[topic, p] for p in partitions} for topic, partitions in before.items()}


def held_back(before: TopicBounds, after: TopicBounds) -> list[tuple[str, int, Bounds]]:
    """The partitions whose first open transaction is the same at both moments."""
    return [
        (topic, partition, now)
        for topic, partitions in sorted(after.items())
        for partition, now in sorted(partitions.items())
        for earlier in [before.get(topic, {}).get(partition)]
        if earlier and earlier.stable == now.stable < earlier.high
    ]


def no_open_transactions(
    before: TopicBounds,
    after: TopicBounds,
    seconds: float,
    timeout: float,
    holders: Mapping[PartitionId, str] | None = None,
) -> Finding:
    """The last stable offset is not held back for longer than the transaction timeout. Two samples decide, not one.

    Args:
        before: the bounds at the first moment.
        after: the bounds at the second moment.
        seconds: the time between the two.
        timeout: the transaction timeout.
        holders: partition → whose transaction is open.
    """
    violations = Violations()
    if seconds >= timeout:
        for topic, partition, now in held_back(before, after):
            holder = (holders or {}).get((topic, partition))
            violations.add(
                f"{topic}/{partition}: open at {now.stable} for {seconds:.0f} s, ends at {now.high}"
                + (f"; {holder}" if holder else "")
            )
    open_now = sum(now.stable < now.high for partitions in after.values() for now in partitions.values())
    note = f"{open_now} open, not for long" if open_now else "none open"
    return violations.finding("no_open_transactions", note, "transactions hold back the last stable offset")
