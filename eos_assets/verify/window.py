"""What one proof looks at: a stretch of the ledger with the source, maps and sink records that belong to it.

Runs may go on meanwhile. So the ledger is read first, up to its end of this moment, and everything else is awaited
until it covers what the ledger speaks of. What came later is left to the next proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.admin import is_compacted
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, await_stable, bounds, stable_ends
from eos_assets.kafka.reader import read_partition, read_partitions
from eos_assets.log import ledger, provenance
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.log.reader import CommittedReader
from eos_assets.run.plan import existing_topics
from eos_assets.run.preflight.topics import check_ids
from eos_assets.verify import checkpoint as proven
from eos_assets.verify.checkpoint import Offsets

#: How long to wait until what the ledger speaks of is stable in the sinks.
PATIENCE_SECONDS = 30.0
FOR_EVER = 1 << 62
#: Maps are written in the last moments of a transaction, so nothing holds them back for long.
MAP_PATIENCE_SECONDS = 5.0


@dataclass
class PartitionWindow:
    """One source partition: its ledger from the last proof on, and which part of it can be proven."""

    partition: int
    rows: list[Genesis | LedgerEntry]
    #: The position at the last proof, where the first entry must begin; None: there was none, so a genesis must be.
    proven: int | None
    #: The group offset, None if there is none; absent while an open transaction holds it.
    group: int | None = None
    group_known: bool = False
    #: The transactions [start, end) that are wholly there, in ledger, maps and sinks.
    start: int = 0
    end: int = 0
    log_start: int = 0
    #: From here on everything was written by the code of today.
    same_code: int = 0

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
        """The source records that those transactions read, as far as they are still there."""
        return OffsetRange(self.partition, max(self.start, self.log_start), self.end)

    @property
    def repeatable(self) -> OffsetRange:
        """The source records on which running the transform again must give the same."""
        return OffsetRange(self.partition, max(self.start, self.log_start, self.same_code), self.end)


@dataclass
class Window:
    """All source partitions, and the bounds between which the topics are read."""

    partitions: dict[int, PartitionWindow]
    bounds: dict[str, dict[int, Bounds]]
    #: Topic and partition → where reading begins: at the end of the last proof, or at the log start.
    starts: Offsets
    #: Sink topic and partition → the last offset of a transaction that is no longer provable.
    faded: Offsets = field(default_factory=dict)
    #: Nothing was under way: the next proof may begin where this one ends.
    closed: bool = True
    ends: Offsets = field(default_factory=dict)
    incremental: bool = False
    #: The sinks, declared and, as far as they still exist, named by the ledger; then the dead letters.
    written: list[str] = field(default_factory=list)
    #: Records of the source may vanish from between others, once a later one of their key has come.
    source_is_compacted: bool = False

    def ranges(self, topic: str, isolation: str = "read_committed") -> list[OffsetRange]:
        """What is to be read of a topic."""
        committed = isolation == "read_committed"
        return [
            OffsetRange(p, self.starts.get((topic, p), b.start), b.stable if committed else b.high)
            for p, b in self.bounds[topic].items()
        ]

    @property
    def unprovable(self) -> int:
        """Source offsets of which retention has taken the proof."""
        return sum(max(0, w.source.start - w.rows[0].start) for w in self.partitions.values() if w.rows)


class Looker:
    """Takes one look at one pipeline."""

    def __init__(self, pipeline: Pipeline, connection: Connection, mode: Mode, *, full: bool) -> None:
        self.pipeline = pipeline
        self.connection = connection
        self.mode = mode
        self.names = pipeline.names(mode)
        self.written = [*(self.names.sink(sink.name) for sink in pipeline.sinks), self.names.dead_letters]
        topics = [pipeline.source.name, self.names.ledger, self.names.provenance, *self.written]
        existing = existing_topics(pipeline, connection, topics, mode)
        begun = set(existing[self.names.ledger].partitions) & set(existing[self.names.provenance].partitions)
        self.source_partitions = [p for p in existing[pipeline.source.name].partitions if p in begun]
        places = [(topic, p) for topic in topics for p in existing[topic].partitions]
        incremental = mode is Mode.EXACTLY_ONCE and not full
        self.proven = proven.load(connection, self.names, places) if incremental else {}
        ends = {(t, p): there.high for t in topics if self.proven for p, there in bounds(connection, t).items()}
        if any(self.proven.get(place, 0) > end for place, end in ends.items()):
            self.proven = {}  # what was proven is gone: a look at everything says what

    def look(self) -> Window:
        """What is there, and still is what the ledger began with."""
        ends = stable_ends(self.connection, self.names.ledger, self.source_partitions)
        rows = self.ledger_rows(ends)
        partitions = {p: self.partition(p, rows[p]) for p in self.source_partitions}
        self.add_former_sinks(partitions)
        self.read_groups(partitions)
        found = self.await_sinks(partitions)
        found[self.names.provenance] = await_maps(self.connection, self.names.provenance)
        window = Window(
            partitions,
            found,
            dict(self.proven),
            incremental=bool(self.proven),
            written=self.written,
            source_is_compacted=is_compacted(self.pipeline.source.name, self.connection),
        )
        for topic, at in found.items():
            for p, there in at.items():
                window.starts[topic, p] = max(window.starts.get((topic, p), 0), there.start)
        self.cut(window)
        window.closed &= all(there.stable == there.high for there in found[self.names.provenance].values())
        window.ends = {
            **{(self.names.ledger, p): end for p, end in ends.items()},
            **{(topic, p): there.stable for topic, at in found.items() for p, there in at.items()},
            **{(self.pipeline.source.name, w.partition): w.end for w in partitions.values() if w.position is not None},
        }
        return window

    def ledger_rows(self, ends: dict[int, int]) -> dict[int, list[Genesis | LedgerEntry]]:
        """The ledger from the last proof on. Without transactions it proves nothing, and is not read."""
        rows: dict[int, list[Genesis | LedgerEntry]] = {p: [] for p in ends}
        places = [(self.names.ledger, p) for p in ends] if self.mode is Mode.EXACTLY_ONCE else []
        for message in read_partitions(self.connection, {place: self.proven.get(place, 0) for place in places}):
            partition = message.partition() or 0
            if (message.offset() or 0) < ends[partition]:
                rows[partition].append(ledger.read(message))
        return rows

    def partition(self, partition: int, rows: list[Genesis | LedgerEntry]) -> PartitionWindow:
        known = (self.names.ledger, partition) in self.proven  # else the ledger is a new one, and the mark an old one
        return PartitionWindow(
            partition, rows, self.proven.get((self.pipeline.source.name, partition)) if known else None
        )

    def add_former_sinks(self, partitions: dict[int, PartitionWindow]) -> None:
        """Topics that the ledger speaks of, and that are no longer declared, are looked at while they exist."""
        named = {
            part.topic
            for window in partitions.values()
            for row in window.rows
            for part in (row.sinks if isinstance(row, LedgerEntry) else ())
        }
        former = sorted((named - set(self.written)) & set(self.connection.metadata().topics))
        self.written = [*self.written[:-1], *former, self.written[-1]]
        if former and self.proven:
            places = [(topic, p) for topic in former for p in self.connection.partitions(topic)]
            self.proven |= proven.load(self.connection, self.names, places)

    def read_groups(self, partitions: dict[int, PartitionWindow]) -> None:
        """The group offsets, and, where a run has moved on meanwhile, only if they differ from the ledger of now.
        Topics that were made anew are refused: their offsets mean something else."""
        reader = CommittedReader(self.connection.config(), self.names)
        try:
            ids = self.connection.topic_ids([self.pipeline.source.name, self.names.ledger, *self.written])
            for partition, window in partitions.items():
                if self.mode is Mode.EXACTLY_ONCE:
                    check_ids(self.pipeline, reader.genesis(partition), ids)
                for group in stable_group_offset(reader, partition):
                    window.group, window.group_known = group, True
                    if self.mode is Mode.EXACTLY_ONCE and moved_on(reader, window):
                        window.group = window.position
        finally:
            reader.close()

    def await_sinks(self, partitions: dict[int, PartitionWindow]) -> dict[str, dict[int, Bounds]]:
        """The bounds of the sinks, once they cover what the ledger speaks of, or the patience ends."""
        needed: Offsets = {}
        for window in partitions.values():
            for row in window.rows:
                for part in row.sinks if isinstance(row, LedgerEntry) else ():
                    place = (part.topic, part.partition)
                    needed[place] = max(needed.get(place, 0), part.last + 1)
        return await_stable(self.connection, self.written, needed, PATIENCE_SECONDS)

    def cut(self, window: Window) -> None:
        """Finds the stretch of each partition that is wholly there."""
        source = bounds(self.connection, self.pipeline.source.name)
        for partition, w in window.partitions.items():
            w.log_start = source[partition].start
            if self.mode is not Mode.EXACTLY_ONCE:
                w.end = w.group or 0
                continue
            w.start = w.rows[0].start if w.rows else w.proven or 0
            w.end = w.position or 0
            first_map = self.first_map(partition, window.bounds[self.names.provenance][partition])
            for row in w.rows:
                if isinstance(row, LedgerEntry):
                    self.cut_at(window, w, row, first_map)
            versions = [
                r for r in w.rows if isinstance(r, LedgerEntry) and r.code_version != self.pipeline.code_version
            ]
            w.same_code = versions[-1].next if versions else 0

    def cut_at(self, window: Window, w: PartitionWindow, entry: LedgerEntry, first_map: int) -> None:
        """Leaves out an entry that is not stable in the sinks yet, or that retention has taken something from."""
        gone = Bounds(FOR_EVER, FOR_EVER, FOR_EVER)  # of a topic that no longer exists
        at = [(part, window.bounds.get(part.topic, {}).get(part.partition, gone)) for part in entry.sinks]
        if any(part.last >= there.high for part, there in at):
            return  # lost from the end of the log: it stays, and the judges miss it
        if any(part.last >= there.stable for part, there in at):
            w.end = min(w.end, entry.start)
            window.closed = False
        elif entry.start < first_map or any(part.first < there.start for part, there in at):
            w.start = entry.next
            for part in entry.sinks:
                place = (part.topic, part.partition)
                window.faded[place] = max(window.faded.get(place, -1), part.last)

    def first_map(self, partition: int, there: Bounds) -> int:
        """The start of the first transaction of which all maps are there."""
        if there.start <= self.proven.get((self.names.provenance, partition), 0):
            return 0
        return first_whole(self.connection, self.names.provenance, partition)


def first_whole(connection: Connection, provenance_topic: str, partition: int) -> int:
    """Transactions that start from here on have all their maps, although retention took what was before."""
    first = next(read_partition(connection, provenance_topic, partition), None)
    if first is None:
        return FOR_EVER
    return provenance.read(first).start + 1  # some of that one's maps may be gone


def await_maps(connection: Connection, provenance_topic: str) -> dict[int, Bounds]:
    """The bounds of a provenance topic, once the maps that are there now are stable, or the patience ends."""
    needed = {(provenance_topic, p): there.high for p, there in bounds(connection, provenance_topic).items()}
    return await_stable(connection, [provenance_topic], needed, MAP_PATIENCE_SECONDS)[provenance_topic]


def moved_on(reader: CommittedReader, window: PartitionWindow) -> bool:
    """Whether a run has committed since the ledger was read, so that the group offset belongs to a later entry."""
    if window.group is None or (window.position is not None and window.group <= window.position):
        return False
    tail = reader.ledger_tail(window.partition)
    return isinstance(tail, LedgerEntry) and tail.next >= window.group


def stable_group_offset(reader: CommittedReader, partition: int) -> Iterator[int | None]:
    """The group offset, or nothing while an open transaction holds it: `no_open_transactions` tells of that one."""
    try:
        yield reader.group_offset(partition, seconds=5)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._TIMED_OUT:
            raise
