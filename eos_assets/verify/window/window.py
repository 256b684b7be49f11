"""The window of a proof: a range of the ledger, with the source records, maps and outputs that belong to it."""

from dataclasses import dataclass, field

from eos_assets.kafka.offsets import Bounds
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.verify.checkpoint import Offsets

#: Topic → partition → its bounds, at one moment.
TopicBounds = dict[str, dict[int, Bounds]]


@dataclass(frozen=True)
class PartitionWindow:
    """One source partition: its ledger since the last proof, and the transactions in it that can be proven."""

    partition: int
    rows: list[Genesis | LedgerEntry]
    #: The position at the last proof, where the first entry must begin; None if there was none, so a genesis must come.
    proven: int | None
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
    def source(self) -> OffsetRange:
        """The source records that those transactions read, as far as they are retained."""
        return OffsetRange(self.partition, max(self.start, self.log_start), self.end)

    @property
    def recomputable(self) -> OffsetRange:
        """The source records on which running the transform again must give the same."""
        return OffsetRange(self.partition, max(self.start, self.log_start, self.code_start), self.end)


@dataclass(frozen=True)
class Window:
    """All source partitions, and the bounds between which the topics are read."""

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
    #: The sinks, declared and, as far as they still exist, named by the ledger; then the dead letters.
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
    def unprovable(self) -> int:
        """The number of source offsets that retention removed before this proof."""
        return sum(max(0, w.source.start - w.rows[0].start) for w in self.partitions.values() if w.rows)

    @property
    def other_code(self) -> int:
        """The number of retained source offsets that cannot be recomputed."""
        return sum(w.recomputable.start - w.source.start for w in self.partitions.values())
