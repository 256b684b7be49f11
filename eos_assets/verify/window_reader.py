"""Read the window of a proof from the cluster.

Runs may write meanwhile. So the ledger is read first, up to its current end, and everything else is awaited until it
covers those entries. What comes later is left to the next proof.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError, KafkaException

from eos_assets.context import PipelineContext
from eos_assets.kafka.admin import is_compacted
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, await_stable, bounds, stable_ends
from eos_assets.kafka.reader import read_partition, read_partitions
from eos_assets.log import ledger, provenance
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.reader import CommittedReader
from eos_assets.run.preflight.topic_ids import check_ids
from eos_assets.run.preflight.topics import existing_topics
from eos_assets.verify import checkpoint
from eos_assets.verify.checkpoint import Offsets
from eos_assets.verify.window import PartitionWindow, Window

#: How long to wait until the outputs that the ledger names are stable in the sinks.
PATIENCE_SECONDS = 30.0
#: Maps are written in the last moments of a transaction, so nothing holds them back for long.
MAP_PATIENCE_SECONDS = 5.0
GROUP_PATIENCE_SECONDS = 5
FOREVER = 1 << 62
#: Of a topic that no longer exists: every record is gone.
GONE = Bounds(FOREVER, FOREVER, FOREVER)

LedgerRows = list[Genesis | LedgerEntry]
TopicBounds = dict[str, dict[int, Bounds]]


@dataclass(frozen=True)
class ProvableRange:
    """The transactions of one source partition that are complete, and what is to be known of the others."""

    start: int
    end: int
    #: Sink topic and partition → the last offset of a transaction that retention has taken something from.
    expired: Offsets
    #: Whether no transaction was left out because it was not stable yet.
    settled: bool


def read_window(context: PipelineContext, *, full: bool) -> Window:
    """Read what was committed since the last proof or, in full, all that is retained. Topics that are not those of the
    genesis are refused."""
    names, source, kafka = context.names, context.pipeline.source.name, context.kafka
    declared = [*(names.sink(sink.name) for sink in context.pipeline.sinks), names.dead_letters]
    topics = [source, names.ledger, names.provenance, *declared]
    existing = existing_topics(context.pipeline, kafka, topics, context.mode)
    started = set(existing[names.ledger].partitions) & set(existing[names.provenance].partitions)
    source_partitions = [p for p in existing[source].partitions if p in started]
    proven: Offsets = {}
    if context.exactly_once and not full:
        proven = load_checkpoint(context, topics, [(topic, p) for topic in topics for p in existing[topic].partitions])
    ledger_ends = stable_ends(kafka, names.ledger, source_partitions)
    rows = read_ledger(context, ledger_ends, proven)
    former = former_sinks(context, rows, declared)
    if former and proven:
        proven |= checkpoint.load(kafka, names, [(topic, p) for topic in former for p in kafka.partitions(topic)])
    written = [*declared[:-1], *former, declared[-1]]
    partitions = {p: PartitionWindow(p, rows[p], last_proven(context, p, proven)) for p in source_partitions}
    group_offsets = read_group_offsets(context, partitions, written)
    found = await_sinks(kafka, written, partitions)
    found[names.provenance] = await_maps(kafka, names.provenance)
    log_starts = {p: there.start for p, there in bounds(kafka, source).items()}
    provable = {
        p: provable_range(w, found, first_map(context, p, found[names.provenance][p], proven))
        if context.exactly_once
        else ProvableRange(0, group_offsets.get(p) or 0, {}, settled=True)
        for p, w in partitions.items()
    }
    windows = {
        p: replace(
            w,
            start=provable[p].start,
            end=provable[p].end,
            log_start=log_starts[p],
            code_start=code_start(w.rows, context.pipeline.code_version) if context.exactly_once else 0,
        )
        for p, w in partitions.items()
    }
    maps_settled = all(there.stable == there.high for there in found[names.provenance].values())
    return Window(
        windows,
        found,
        starts={**proven, **first_offsets(found, proven)},
        ends=next_checkpoint(context, ledger_ends, found, windows),
        group_offsets=group_offsets,
        expired=highest([one.expired for one in provable.values()]),
        settled=maps_settled and all(one.settled for one in provable.values()),
        incremental=bool(proven),
        written=written,
        source_is_compacted=is_compacted(source, kafka),
    )


def load_checkpoint(context: PipelineContext, topics: list[str], places: list[tuple[str, int]]) -> Offsets:
    """The offsets up to which everything is proven; none if a topic ends before one of them: records that were proven
    are gone, and a proof of everything shows which."""
    proven = checkpoint.load(context.kafka, context.names, places)
    ends = {(t, p): there.high for t in topics if proven for p, there in bounds(context.kafka, t).items()}
    return {} if any(proven.get(place, 0) > end for place, end in ends.items()) else proven


def last_proven(context: PipelineContext, partition: int, proven: Offsets) -> int | None:
    """The position of the last proof. Without one of the ledger, the source's belongs to an earlier ledger."""
    if (context.names.ledger, partition) not in proven:
        return None
    return proven.get((context.pipeline.source.name, partition))


def read_ledger(context: PipelineContext, ends: dict[int, int], proven: Offsets) -> dict[int, LedgerRows]:
    """The ledger since the last proof. Without transactions it proves nothing, and is not read."""
    rows: dict[int, LedgerRows] = {p: [] for p in ends}
    places = [(context.names.ledger, p) for p in ends] if context.exactly_once else []
    for message in read_partitions(context.kafka, {place: proven.get(place, 0) for place in places}):
        partition = message.partition() or 0
        if (message.offset() or 0) < ends[partition]:
            rows[partition].append(ledger.read(message))
    return rows


def former_sinks(context: PipelineContext, rows: Mapping[int, LedgerRows], declared: list[str]) -> list[str]:
    """Topics that the ledger names, that are no longer declared and still exist."""
    named = {
        part.topic
        for partition_rows in rows.values()
        for row in partition_rows
        for part in (row.sinks if isinstance(row, LedgerEntry) else ())
    }
    return sorted((named - set(declared)) & set(context.kafka.metadata().topics))


def read_group_offsets(
    context: PipelineContext, partitions: dict[int, PartitionWindow], written: list[str]
) -> dict[int, int | None]:
    """The stable group offsets. Where a run has committed meanwhile, the position of the window stands in for one that
    belongs to a later entry."""
    offsets: dict[int, int | None] = {}
    reader = CommittedReader(context.kafka.config(), context.names)
    try:
        ids = context.kafka.topic_ids([context.pipeline.source.name, context.names.ledger, *written])
        for partition, window in partitions.items():
            if context.exactly_once:
                check_ids(context.pipeline, reader.genesis(partition), ids)
            for offset in stable_group_offset(reader, partition):
                committed_since = context.exactly_once and has_later_entry(reader, window, offset)
                offsets[partition] = window.position if committed_since else offset
    finally:
        reader.close()
    return offsets


def stable_group_offset(reader: CommittedReader, partition: int) -> Iterator[int | None]:
    """The group offset, or nothing while an open transaction holds it: `no_open_transactions` reports that one."""
    try:
        yield reader.group_offset(partition, seconds=GROUP_PATIENCE_SECONDS)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._TIMED_OUT:
            raise


def has_later_entry(reader: CommittedReader, window: PartitionWindow, offset: int | None) -> bool:
    """Whether a run has committed since the ledger was read, so that the group offset belongs to a later entry."""
    if offset is None or (window.position is not None and offset <= window.position):
        return False
    tail = reader.ledger_tail(window.partition)
    return isinstance(tail, LedgerEntry) and tail.next >= offset


def await_sinks(kafka: Connection, written: list[str], partitions: dict[int, PartitionWindow]) -> TopicBounds:
    """The bounds of the sinks, once they cover the outputs that the ledger names, or when the time is up."""
    entries = [row for w in partitions.values() for row in w.rows if isinstance(row, LedgerEntry)]
    needed = highest([{(part.topic, part.partition): part.last + 1} for entry in entries for part in entry.sinks])
    return await_stable(kafka, written, needed, PATIENCE_SECONDS)


def await_maps(kafka: Connection, provenance_topic: str) -> dict[int, Bounds]:
    """The bounds of a provenance topic, once its current maps are stable, or when the time is up."""
    needed = {(provenance_topic, p): there.high for p, there in bounds(kafka, provenance_topic).items()}
    return await_stable(kafka, [provenance_topic], needed, MAP_PATIENCE_SECONDS)[provenance_topic]


def provable_range(window: PartitionWindow, found: TopicBounds, first_map: int) -> ProvableRange:
    """Leave out entries that are not stable in the sinks yet, and those that retention has taken something from."""
    start = window.rows[0].start if window.rows else window.proven or 0
    end = window.position or 0
    expired: list[Offsets] = []
    settled = True
    for entry in window.rows:
        if not isinstance(entry, LedgerEntry):
            continue
        sinks = [(part, found.get(part.topic, {}).get(part.partition, GONE)) for part in entry.sinks]
        if any(part.last >= there.high for part, there in sinks):
            continue  # lost from the end of the log: the entry stays, and its records are found missing
        if any(part.last >= there.stable for part, there in sinks):
            end, settled = min(end, entry.start), False
        elif entry.start < first_map or any(part.first < there.start for part, there in sinks):
            start = entry.next
            expired += [{(part.topic, part.partition): part.last} for part in entry.sinks]
    return ProvableRange(start, end, highest(expired), settled)


def first_map(context: PipelineContext, partition: int, there: Bounds, proven: Offsets) -> int:
    """The start of the first transaction of which all maps are retained."""
    if there.start <= proven.get((context.names.provenance, partition), 0):
        return 0
    return first_complete_map(context.kafka, context.names.provenance, partition)


def first_complete_map(kafka: Connection, provenance_topic: str, partition: int) -> int:
    """The source offset from which on transactions have all their maps, although retention took earlier ones."""
    first = next(read_partition(kafka, provenance_topic, partition), None)
    if first is None:
        return FOREVER
    return provenance.read(first).start + 1  # some maps of that transaction may be gone


def code_start(rows: LedgerRows, code_version: str) -> int:
    """The source offset from which on everything was written by this version of the code."""
    others = [row for row in rows if isinstance(row, LedgerEntry) and row.code_version != code_version]
    return others[-1].next if others else 0


def first_offsets(found: TopicBounds, proven: Offsets) -> Offsets:
    """Where reading begins in each topic and partition."""
    return {
        (topic, p): max(proven.get((topic, p), 0), there.start)
        for topic, partitions in found.items()
        for p, there in partitions.items()
    }


def next_checkpoint(
    context: PipelineContext, ledger_ends: dict[int, int], found: TopicBounds, windows: dict[int, PartitionWindow]
) -> Offsets:
    """The checkpoint of this proof, if it holds."""
    source = context.pipeline.source.name
    return {
        **{(context.names.ledger, p): end for p, end in ledger_ends.items()},
        **{(topic, p): there.stable for topic, partitions in found.items() for p, there in partitions.items()},
        **{(source, p): w.end for p, w in windows.items() if w.position is not None},
    }


def highest(offsets: list[Offsets]) -> Offsets:
    """The highest offset of each topic and partition."""
    result: Offsets = {}
    for one in offsets:
        for place, offset in one.items():
            result[place] = max(result.get(place, offset), offset)
    return result
