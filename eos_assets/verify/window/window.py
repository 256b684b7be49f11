"""The window of a proof: a range of the ledger, with the source records, maps and outputs that belong to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eos_assets.context import PipelineContext
from eos_assets.kafka.offsets import Bounds, OffsetRange, bounds, stable_ends
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import Amendment, Genesis, LedgerEntry, LetterEntry
from eos_assets.run.preflight.topics import existing_topics
from eos_assets.verify import checkpoint
from eos_assets.verify.checkpoint import Offsets

#: Topic → partition → its bounds, at one moment.
TopicBounds = dict[str, dict[int, Bounds]]
LedgerRows = list[Genesis | LedgerEntry]


@dataclass(frozen=True)
class PartitionWindow:
    """One source partition: its ledger since the last proof, and the transactions in it that can be proven."""

    partition: int
    rows: LedgerRows
    #: The position at the last proof, where the first entry must begin; None if there was none, so a genesis must come.
    proven: int | None
    #: The repairs of this partition. A window with one reaches from the start of the ledger.
    repairs: list[Amendment] = field(default_factory=list)
    #: The transactions in [start, end) are complete: in ledger, maps and sinks.
    start: int = 0
    end: int = 0
    log_start: int = 0
    #: From here on everything was written by the current code, and can be recomputed.
    code_start: int = 0

    @property
    def position(self) -> int | None:
        last = self.rows[-1] if self.rows else None
        return last.next if isinstance(last, LedgerEntry) else last.start if last else self.proven

    @property
    def entries(self) -> list[LedgerEntry]:
        """The entries that can be proven."""
        return [row for row in self.rows if isinstance(row, LedgerEntry) and self.start <= row.start < self.end]

    @property
    def provable_repairs(self) -> list[Amendment]:
        """The repairs that concern no other transactions."""
        return [repair for repair in self.repairs if self.start <= repair.first and repair.last < self.end]

    @property
    def source(self) -> OffsetRange:
        """The retained source records that those transactions read."""
        return OffsetRange(self.partition, max(self.start, self.log_start), self.end)

    @property
    def recomputable(self) -> OffsetRange:
        """The source records on which running the transform again must give the same."""
        return OffsetRange(self.partition, max(self.start, self.log_start, self.code_start), self.end)


@dataclass(frozen=True)
class Window:
    """All source partitions, and the bounds for reading the topics."""

    partitions: dict[int, PartitionWindow]
    bounds: TopicBounds
    #: Topic and partition → where reading begins: at the end of the last proof, or at the log start.
    starts: Offsets
    #: Topic and partition → where the next proof begins, if this one holds.
    ends: Offsets = field(default_factory=dict)
    #: Source partition → its group offset, None if there is none; absent while an open transaction holds it.
    group_offsets: dict[int, int | None] = field(default_factory=dict)
    #: Sink topic and partition → the last offset of a transaction that is no longer provable.
    expired: Offsets = field(default_factory=dict)
    #: No transaction was under way: the next proof may begin where this one ends.
    settled: bool = True
    incremental: bool = False
    #: The declared sinks, those that only the ledger names and that still exist, then the dead letters.
    written_topics: list[str] = field(default_factory=list)
    #: Compaction may remove a source record once a later one of its key has come.
    source_is_compacted: bool = False

    def ranges(self, topic: str, isolation: str = "read_committed") -> list[OffsetRange]:
        """What a proof reads of a topic."""
        committed = isolation == "read_committed"
        return [
            OffsetRange(p, self.starts.get((topic, p), b.start), b.stable if committed else b.high)
            for p, b in self.bounds[topic].items()
        ]

    @property
    def retained(self) -> list[OffsetRange]:
        """The source records of all partitions that are retained."""
        return [w.source for w in self.partitions.values() if w.source.size]

    @property
    def recomputable(self) -> list[OffsetRange]:
        """The source records of all partitions on which running the transform again must give the same."""
        return [w.recomputable for w in self.partitions.values() if w.recomputable.size]

    @property
    def entries(self) -> list[LedgerEntry]:
        """The entries of all partitions that can be proven."""
        return [entry for w in self.partitions.values() for entry in w.entries]

    @property
    def repairs(self) -> list[Amendment]:
        """The repairs of all partitions."""
        return [repair for w in self.partitions.values() for repair in w.repairs]

    def replayed(self, code_version: str | None = None) -> list[tuple[int, int]]:
        """Source partition and offset of each dead letter that was replayed, or that this version of the code replayed,
        as far as its source record is in the window."""
        return [
            (p, offset)
            for p, w in self.partitions.items()
            for entry in w.repairs
            if isinstance(entry, LetterEntry) and code_version in (None, entry.code_version)
            for offset in sorted(entry.replayed)
            if w.source.start <= offset < w.end
        ]

    @property
    def provable_repairs(self) -> list[Amendment]:
        """The repairs of all partitions that can be proven."""
        return [repair for w in self.partitions.values() for repair in w.provable_repairs]

    @property
    def unprovable(self) -> int:
        """The number of source offsets that retention removed before this proof."""
        return sum(max(0, w.source.start - w.rows[0].start) for w in self.partitions.values() if w.rows)

    @property
    def other_code(self) -> int:
        """The number of retained source offsets that cannot be recomputed."""
        return sum(w.recomputable.start - w.source.start for w in self.partitions.values())


@dataclass(frozen=True)
class LedgerWindow:
    """The ledger since the last proof, and what that proof covered."""

    partitions: dict[int, PartitionWindow]
    #: Ledger partition → where its window ends.
    ends: dict[int, int]
    #: Topic and partition → the checkpoint of the last proof; empty if there is none.
    proven: Offsets
    #: The declared sinks, those that only the ledger names and that still exist, then the dead letters.
    written_topics: list[str]


def read_ledger_window(context: PipelineContext, *, full: bool) -> LedgerWindow:
    """Read the ledger since the last proof or, in full, from its start. With a repair since then it is in full: only
    the whole ledger shows that what was repaired was missing."""
    names, source, kafka = context.names, context.pipeline.source.name, context.kafka
    declared = [*(names.sink(sink.name) for sink in context.pipeline.sinks), names.dead_letters]
    topics = [source, names.ledger, names.provenance, *declared]
    existing = existing_topics(context.pipeline, kafka, topics, context.mode)
    started = set(existing[names.ledger].partitions) & set(existing[names.provenance].partitions)
    source_partitions = [p for p in existing[source].partitions if p in started]
    proven: Offsets = {}
    if context.exactly_once and not full:
        proven = load_checkpoint(context, topics, [(topic, p) for topic in topics for p in existing[topic].partitions])
    ends = stable_ends(kafka, names.ledger, source_partitions)
    rows, repairs = read_ledger(context, ends, proven)
    if proven and any(one.writes_records for amendments in repairs.values() for one in amendments):
        return read_ledger_window(context, full=True)
    former = former_sinks(context, rows, declared)
    if former and proven:
        proven |= checkpoint.load(kafka, names, [(topic, p) for topic in former for p in kafka.partitions(topic)])
    partitions = {
        p: PartitionWindow(p, rows[p], last_proven(context, p, proven), repairs[p]) for p in source_partitions
    }
    return LedgerWindow(partitions, ends, proven, [*declared[:-1], *former, declared[-1]])


def load_checkpoint(context: PipelineContext, topics: list[str], places: list[tuple[str, int]]) -> Offsets:
    """The offsets up to which everything is proven; none if a topic ends before one of them: proven records are gone,
    and a proof of everything shows which."""
    proven = checkpoint.load(context.kafka, context.names, places)
    ends = {(t, p): bound.high for t in topics if proven for p, bound in bounds(context.kafka, t).items()}
    return {} if any(proven.get(place, 0) > end for place, end in ends.items()) else proven


def last_proven(context: PipelineContext, partition: int, proven: Offsets) -> int | None:
    """The position at the last proof. Without a checkpoint of the ledger, that of the source is outdated."""
    if (context.names.ledger, partition) not in proven:
        return None
    return proven.get((context.pipeline.source.name, partition))


def read_ledger(
    context: PipelineContext, ends: dict[int, int], proven: Offsets
) -> tuple[dict[int, LedgerRows], dict[int, list[Amendment]]]:
    """The ledger since the last proof, and the repairs in it. That of a weaker delivery is not atomic with the output,
    and is not read."""
    rows: dict[int, LedgerRows] = {p: [] for p in ends}
    repairs: dict[int, list[Amendment]] = {p: [] for p in ends}
    places = [(context.names.ledger, p) for p in ends] if context.exactly_once else []
    for message in read_partitions(context.kafka, {place: proven.get(place, 0) for place in places}):
        partition = message.partition() or 0
        if (message.offset() or 0) < ends[partition]:
            entry = ledger.read(message)
            if isinstance(entry, Amendment):
                repairs[partition].append(entry)
            else:
                rows[partition].append(entry)
    return rows, repairs


def former_sinks(context: PipelineContext, rows: Mapping[int, LedgerRows], declared: list[str]) -> list[str]:
    """The topics in the ledger that are no longer declared and still exist."""
    named = {
        written.topic
        for partition_rows in rows.values()
        for row in partition_rows
        for written in (row.sinks if isinstance(row, LedgerEntry) else ())
    }
    return sorted((named - set(declared)) & set(context.kafka.metadata().topics))
