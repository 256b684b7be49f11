"""Plan a repair: what a proof shows missing, what of it can be produced again, and what readers have to skip."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.declare.check import Finding
from eos_assets.errors import EosError
from eos_assets.log.ledger import Amendment, LedgerEntry
from eos_assets.repair.outputs import (
    CHANGED,
    EXTRA,
    MISSING,
    MOVED,
    NOT_GIVEN,
    ORIGIN,
    OUTPUT,
    PLACE,
    OutputFrames,
    columns_are_known,
)
from eos_assets.run.preflight.permissions import check_permissions
from eos_assets.sink.repair import SKIP, MissingOutput, MissingOutputs, OutputId, PartitionRepair, sum_lost
from eos_assets.transform.arrow_batches import arrow_batch_limit
from eos_assets.transform.business_key import check_business_key
from eos_assets.transform.spark_errors import classify
from eos_assets.verify.findings import Evidence, evaluate, sink_sums
from eos_assets.verify.invariants import add_repaired
from eos_assets.verify.verify import observe, plan_recomputation, scope_of
from eos_assets.verify.window.reader import read_window
from eos_assets.verify.window.window import PartitionWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

#: The most outputs that one repair writes, and the most rows of each list.
MOST_ROWS = 100_000

#: Broken invariants that no record can repair, and why.
REASONS = {
    "ordered_within_partition": "a record cannot be moved to a later offset",
    "routed_correctly": "a record cannot be moved to another partition",
    "ledger_tiles_source": "the ledger is torn: restore it, or declare the next generation with a new sink",
    "ledger_matches_sink": "an entry of the ledger cannot be changed",
    "offsets_match_ledger": "set the group offset back to the ledger's position with Kafka's tools",
}


@dataclass(frozen=True)
class Unrepairable:
    """Something that a repair cannot produce again, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Double:
    """A visible record that readers have to skip: a second one of the same output, or one that no map names."""

    topic: str
    partition: int
    offset: int
    #: Its source record; empty if no map names it.
    origin: str


@dataclass(frozen=True)
class Missing:
    """An output that a repair writes again."""

    origin: str
    #: -1 for a skip.
    sequence: int
    #: Where it belongs.
    place: str
    #: Whether it had been written, and is no longer visible.
    was_written: bool


@dataclass(frozen=True)
class RepairPlan:
    """What one proof leaves to repair."""

    context: PipelineContext
    repairs: dict[int, PartitionRepair] = field(default_factory=dict)
    unrepairable: list[Unrepairable] = field(default_factory=list)
    doubles: list[Double] = field(default_factory=list)
    #: The invariants that do not hold.
    broken: list[str] = field(default_factory=list)
    #: Whether a list was cut, so that another repair has to follow.
    cut: bool = False

    @property
    def missing(self) -> list[Missing]:
        source = self.context.names.source
        return [
            Missing(
                f"{source}/{partition}/{offset}",
                sequence,
                "skipped" if sequence == SKIP else f"{output.topic}/{output.partition}",
                output.lost_from is not None,
            )
            for partition, repair in sorted(self.repairs.items())
            for (offset, sequence), output in sorted(repair.outputs.items())
        ]

    @property
    def unexplained(self) -> list[str]:
        """The broken invariants of which nothing is listed."""
        listed = self.repairs or self.unrepairable or self.doubles
        return [] if listed else self.broken

    @property
    def nothing_to_do(self) -> bool:
        return not self.broken


def plan_repair(context: PipelineContext) -> RepairPlan:
    """Prove all that is retained and, where an invariant does not hold, compare every output. Nothing is written."""
    check_permissions(context.pipeline, context.kafka, context.mode, writes=False)
    check_business_key(context.pipeline, context.spark)
    recomputation = plan_recomputation(context, read_window(context, full=True), None)
    evidence = Evidence(recomputation, observe(recomputation, "read_committed"))
    findings = list(evaluate(evidence))
    broken = [finding for finding in findings if not finding.holds and finding.severity == "error"]
    if not broken:
        return RepairPlan(context)
    try:
        return Planning(evidence, broken).plan()
    except EosError:
        raise
    except Exception as failure:
        raise EosError(
            f"The outputs of {context.pipeline.name} could not be compared: {classify(failure).described}",
            "Correct the transform if it raises, and plan again. Nothing was written.",
        ) from failure


class Planning:
    """The plan of one repair, from the evidence of a proof that does not hold."""

    def __init__(self, evidence: Evidence, broken: list[Finding]) -> None:
        self.evidence = evidence
        self.broken = [finding.name for finding in broken]
        self.context, self.window = evidence.context, evidence.window
        self.frames = OutputFrames(evidence.recomputation, scope_of(evidence.recomputation))
        self.topics = self.frames.frames.topics
        self.unrepairable: list[Unrepairable] = []
        self.missing: dict[int, MissingOutputs] = defaultdict(dict)
        #: The source records whose dead letters were replayed.
        self.replayed = set(self.window.replayed())
        #: Source records with an output that is not the one that the transform gives.
        self.doubtful: set[tuple[int, int]] = set()
        self.cut = False

    def plan(self) -> RepairPlan:
        with arrow_batch_limit(self.context.spark, fast=False):
            self.compare_outputs()
            doubles = list(self.doubles())
        self.refuse_doubtful()
        self.refuse_ambiguous()
        self.refuse_changed()
        if "ledger_tiles_source" in self.broken:
            self.refuse_all("the ledger is torn")
        self.explain_invariants()
        repairs = {p: self.partition_repair(p, outputs) for p, outputs in sorted(self.missing.items()) if outputs}
        return RepairPlan(self.context, repairs, self.unrepairable, doubles, self.broken, self.cut)

    def compare_outputs(self) -> None:
        """Plan to write what is missing, and note what cannot be repaired."""
        if not {"none_missing", "values_recompute", "routed_correctly"} & set(self.broken):
            return
        for row in self.collect(self.frames.problems(), OUTPUT):
            self.classify(row)
        other_code = bool(self.window.other_code) or not self.frames.recomputes
        if other_code and not self.context.pipeline.drops:
            for row in self.collect(self.frames.unnamed_sources(), ORIGIN):
                self.refuse(row, self.reason(row))

    def collect(self, rows: "DataFrame", order: list[str]) -> "list[Row]":
        """The first rows, in order."""
        collected = rows.orderBy(*order).limit(MOST_ROWS + 1).collect()
        self.cut |= len(collected) > MOST_ROWS
        return collected[:MOST_ROWS]

    def classify(self, row: "Row") -> None:
        """Plan to write an output, or note why it cannot be repaired."""
        if row.problem == EXTRA and (row.source_partition, row.source_offset) in self.replayed:
            return  # a proof compares it with what the code of its replay gives
        if row.problem in (MOVED, CHANGED, EXTRA):
            self.doubtful.add((row.source_partition, row.source_offset))
        if row.problem == MISSING:
            skip = row.output == SKIP
            self.missing[row.source_partition][row.source_offset, row.output] = MissingOutput(
                topic="" if skip else self.topics[row.given.topic],
                partition=row.given.sink_partition,
                digest=row.given.digest % 2**64,
                lost_from=None if skip or row.last is None else row.last.start,
            )
        elif row.problem == MOVED:
            was = row.record or row.last
            place = f"{self.topics[was.topic]}/{was.sink_partition}"
            self.refuse(row, f"it was written to {place}, and the transform gives it for another partition")
        elif row.problem == CHANGED:
            place = f"{self.topics[row.record.topic]}/{row.record.sink_partition}/{row.record.sink_offset}"
            self.refuse(row, f"{place} holds another value in its place, and a record cannot be changed")
        elif row.problem == NOT_GIVEN:
            self.refuse(row, self.reason(row))

    def refuse_doubtful(self) -> None:
        """Where one output is another than the transform gives, the numbers of the others may be others, too."""
        for partition, outputs in self.missing.items():
            for output in list(outputs):
                if (partition, output[0]) in self.doubtful:
                    self.refuse_output(
                        partition, output, "another output of the record is not what the transform gives"
                    )

    def refuse(self, row: "Row", reason: str) -> None:
        sequence = getattr(row, "output", None)
        which = f" output {sequence}" if sequence is not None and sequence != SKIP else ""
        place = f"{self.context.names.source}/{row.source_partition}/{row.source_offset}"
        self.unrepairable.append(Unrepairable(f"{place}{which}", reason))

    def reason(self, row: "Row") -> str:
        """Why the transform does not give an output again."""
        pipeline, w = self.context.pipeline, self.window.partitions[row.source_partition]
        if pipeline.stateful:
            return "the pipeline is stateful: its outputs depend on the state of that moment"
        if not pipeline.deterministic:
            return "the pipeline declares deterministic=False: running it again may give something else"
        if (row.source_partition, row.source_offset) in self.replayed:
            return "it was a dead letter that was replayed; send the record to the source again"
        if not columns_are_known(pipeline):
            return "the function raises on an empty batch, so it is unknown whether it numbers its outputs"
        if row.source_offset < w.log_start:
            return "retention has removed the source record"
        if row.source_offset < w.code_start:
            return "it was processed by another version of the code, which may have given something else"
        if pipeline.on_error == "isolate":
            return "it was isolated, because the transform raises on it"
        return "the transform does not give it again"

    def refuse_ambiguous(self) -> None:
        """Where records are dropped, only the ledger's count shows that a record was lost and not dropped."""
        if not self.context.pipeline.drops:
            return
        rows = (json.loads(text) for text in self.evidence.observations["dropped"].examples)
        dropped = {(partition, start): n for partition, start, n in rows}
        for partition, outputs in self.missing.items():
            for (offset, sequence), output in list(outputs.items()):
                entry = covering_entry(self.window.partitions[partition], offset)
                counted = entry is not None and entry.dropped == dropped.get((partition, entry.start), 0)
                if output.lost_from is None and not counted:
                    why = "the ledger does not count what was dropped there, so it may have been dropped or lost"
                    self.refuse_output(partition, (offset, sequence), why)

    def refuse_changed(self) -> None:
        """What was lost must be what the transform gives now, by the digest of its transaction in the ledger."""
        provable = self.window.provable_repairs
        sums = add_repaired(sink_sums(self.evidence), self.window.repairs, provable)
        transactions: list[LedgerEntry | Amendment] = [*self.window.entries, *provable]
        for entry in transactions:
            outputs = self.missing.get(entry.partition, {})
            lost = {(one.start, one.topic, one.partition): one for one in sum_lost(outputs.values())}
            for written in entry.sinks:
                claim = lost.get((entry.start, written.topic, written.partition))
                place = (entry.partition, entry.start, written.topic, written.partition)
                count, *_, digest = sums.get(place, (0, 0, 0, 0))
                if claim and (count + claim.count, (digest + claim.digest) % 2**64) != (written.count, written.digest):
                    for output_id, output in list(outputs.items()):
                        if (output.lost_from, output.topic, output.partition) == (entry.start, *place[2:]):
                            why = "the digest in the ledger shows that something else was written there"
                            self.refuse_output(entry.partition, output_id, why)

    def refuse_all(self, reason: str) -> None:
        for partition, outputs in self.missing.items():
            for output in list(outputs):
                self.refuse_output(partition, output, reason)

    def refuse_output(self, partition: int, output: OutputId, reason: str) -> None:
        del self.missing[partition][output]
        place = f"{self.context.names.source}/{partition}/{output[0]}"
        self.unrepairable.append(Unrepairable(f"{place}{f' output {output[1]}' * (output[1] != SKIP)}", reason))

    def explain_invariants(self) -> None:
        """Name the broken invariants that writing records cannot repair."""
        lost = any(output.lost_from is not None for outputs in self.missing.values() for output in outputs.values())
        for name in self.broken:
            if name in REASONS and not (name == "ledger_matches_sink" and lost):
                self.unrepairable.append(Unrepairable(name, REASONS[name]))

    def doubles(self) -> Iterator[Double]:
        """What readers have to skip, in the order of the sinks."""
        source = self.context.names.source
        repeated = self.collect(self.frames.doubles(), PLACE) if "no_duplicates" in self.broken else []
        invented = self.collect(self.frames.invented(), PLACE) if "none_invented" in self.broken else []
        for row in repeated:
            origin = f"{source}/{row.source_partition}/{row.source_offset}"
            yield Double(self.topics[row.topic], row.sink_partition, row.sink_offset, origin)
        for row in invented:
            yield Double(self.topics[row.topic], row.sink_partition, row.sink_offset, "")

    def partition_repair(self, partition: int, outputs: MissingOutputs) -> PartitionRepair:
        names, ends = self.context.names, self.window.ends
        return PartitionRepair(
            outputs,
            repairs=len(self.window.partitions[partition].repairs),
            ledger_end=ends[names.ledger, partition],
            provenance_end=ends[names.provenance, partition],
        )


def covering_entry(window: PartitionWindow, offset: int) -> LedgerEntry | None:
    """The entry whose range holds a source offset."""
    return next((entry for entry in window.entries if entry.start <= offset < entry.next), None)


def origins(repair: PartitionRepair) -> list[int]:
    """The offsets of the source records of which something is missing."""
    return sorted({offset for offset, _ in repair.outputs})
