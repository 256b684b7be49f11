"""Read the window of a proof from the cluster.

Runs may write meanwhile. So the ledger is read first, up to its current end, and everything else is awaited until it
covers those entries. What comes later is left to the next proof.
"""

from dataclasses import dataclass, replace

from confluent_kafka import KafkaError, KafkaException

from eos_assets.context import PipelineContext
from eos_assets.kafka.admin import is_compacted
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, await_stable, bounds
from eos_assets.kafka.reader import read_partition
from eos_assets.log import provenance
from eos_assets.log.ledger import LedgerEntry, WrittenRange
from eos_assets.log.reader import CommittedReader
from eos_assets.run.preflight.topic_ids import check_ids
from eos_assets.verify.checkpoint import Offsets
from eos_assets.verify.window.window import (
    LedgerRows,
    LedgerWindow,
    PartitionWindow,
    TopicBounds,
    Window,
    read_ledger_window,
)

#: How long to wait for a group offset that an open transaction holds.
GROUP_PATIENCE_SECONDS = 5
#: How long to wait until the outputs that the ledger names are stable in the sinks.
PATIENCE_SECONDS = 30.0
#: Maps are written in the last moments of a transaction, so nothing holds them back for long.
MAP_PATIENCE_SECONDS = 5.0
FOREVER = 1 << 62
#: Of a topic that no longer exists: every record is gone.
GONE = Bounds(FOREVER, FOREVER, FOREVER)


@dataclass(frozen=True)
class ProvableRange:
    """The transactions of one source partition that are complete in ledger, maps and sinks."""

    start: int
    end: int
    #: Sink topic and partition → the last offset of a transaction that retention has taken something from.
    expired: Offsets
    #: Whether no transaction was left out because it was not stable yet.
    settled: bool


def read_window(context: PipelineContext, *, full: bool) -> Window:
    """Read what was committed since the last proof or, in full, all that is retained. Topics that are not those of the
    genesis are refused."""
    ledger_window = read_ledger_window(context, full=full)
    group_offsets = read_group_offsets(context, ledger_window)
    topic_bounds = await_sinks(context.kafka, ledger_window)
    maps = topic_bounds[context.names.provenance] = await_maps(context.kafka, context.names.provenance)
    source = context.pipeline.source.name
    source_bounds = bounds(context.kafka, source)
    provable = {
        p: provable_range(w, topic_bounds, first_map(context, p, maps[p], ledger_window.proven))
        if context.exactly_once
        else ProvableRange(0, group_offsets.get(p) or 0, {}, settled=True)
        for p, w in ledger_window.partitions.items()
    }
    windows = {
        p: replace(
            w,
            start=provable[p].start,
            end=provable[p].end,
            log_start=source_bounds[p].start,
            code_start=code_start(w.rows, context.pipeline.code_version),
        )
        for p, w in ledger_window.partitions.items()
    }
    maps_settled = all(bound.stable == bound.high for bound in maps.values())
    return Window(
        windows,
        topic_bounds,
        starts={**ledger_window.proven, **first_offsets(topic_bounds, ledger_window.proven)},
        ends=next_checkpoint(context, ledger_window.ends, topic_bounds, windows),
        group_offsets=group_offsets,
        expired=highest([one.expired for one in provable.values()]),
        settled=maps_settled and all(one.settled for one in provable.values()),
        incremental=bool(ledger_window.proven),
        written_topics=ledger_window.written_topics,
        source_is_compacted=is_compacted(source, context.kafka),
    )


def read_group_offsets(context: PipelineContext, ledger_window: LedgerWindow) -> dict[int, int | None]:
    """Read the stable group offsets. One that belongs to an entry after the window, because a run has committed
    meanwhile, is replaced by the position of the window."""
    offsets: dict[int, int | None] = {}
    reader = CommittedReader(context.kafka.config(), context.names)
    try:
        ids = context.kafka.topic_ids(
            [context.pipeline.source.name, context.names.ledger, *ledger_window.written_topics]
        )
        for partition, window in ledger_window.partitions.items():
            if context.exactly_once:
                check_ids(context.pipeline, reader.genesis(partition), ids)
            try:
                offset = reader.group_offset(partition, seconds=GROUP_PATIENCE_SECONDS)
            except KafkaException as failure:
                if failure.args[0].code() != KafkaError._TIMED_OUT:
                    raise
                continue  # an open transaction holds it: `no_open_transactions` reports that one
            committed_since = context.exactly_once and has_later_entry(reader, window, offset)
            offsets[partition] = window.position if committed_since else offset
    finally:
        reader.close()
    return offsets


def has_later_entry(reader: CommittedReader, window: PartitionWindow, offset: int | None) -> bool:
    """Whether a run has committed since the ledger was read, so that the group offset belongs to a later entry."""
    if offset is None or (window.position is not None and offset <= window.position):
        return False
    tail = reader.ledger_tail(window.partition)
    return isinstance(tail, LedgerEntry) and tail.next >= offset


def await_sinks(kafka: Connection, ledger_window: LedgerWindow) -> TopicBounds:
    """The bounds of the sinks, once they cover the outputs that the ledger names, or when the time is up."""
    entries = [row for w in ledger_window.partitions.values() for row in w.rows if isinstance(row, LedgerEntry)]
    sinks = [entry.sinks for entry in entries]
    sinks += [repair.sinks for w in ledger_window.partitions.values() for repair in w.repairs]
    needed = highest([{(written.topic, written.partition): written.last + 1} for ranges in sinks for written in ranges])
    return await_stable(kafka, ledger_window.written_topics, needed, PATIENCE_SECONDS)


def await_maps(kafka: Connection, provenance_topic: str) -> dict[int, Bounds]:
    """The bounds of a provenance topic, once its current maps are stable, or when the time is up."""
    needed = {(provenance_topic, p): bound.high for p, bound in bounds(kafka, provenance_topic).items()}
    return await_stable(kafka, [provenance_topic], needed, MAP_PATIENCE_SECONDS)[provenance_topic]


def provable_range(window: PartitionWindow, topic_bounds: TopicBounds, first_map: int) -> ProvableRange:
    """Leave out entries that are not stable in the sinks yet, and those that retention has taken something from."""
    start = window.rows[0].start if window.rows else window.proven or 0
    end = window.position or 0
    expired: list[Offsets] = []
    settled = True
    for entry in window.rows:
        if not isinstance(entry, LedgerEntry):
            continue
        sinks = [(written, topic_bounds.get(written.topic, {}).get(written.partition, GONE)) for written in entry.sinks]
        if any(written.last >= bound.high for written, bound in sinks):
            continue  # lost from the end of the log: the entry stays, and its records are found missing
        if any(written.last >= bound.stable for written, bound in sinks):
            end, settled = min(end, entry.start), False
        elif entry.start < first_map or any(written.first < bound.start for written, bound in sinks):
            start = entry.next
            expired += [{(written.topic, written.partition): written.last} for written in entry.sinks]
    for repair in window.repairs:
        if any(is_unstable(written, topic_bounds) for written in repair.sinks):
            end, settled = min(end, repair.first), False
    return ProvableRange(start, end, highest(expired), settled)


def is_unstable(written: WrittenRange, topic_bounds: TopicBounds) -> bool:
    """Whether a transaction that is open holds back what was written."""
    bound = topic_bounds.get(written.topic, {}).get(written.partition, GONE)
    return bound.stable <= written.last < bound.high


def first_map(context: PipelineContext, partition: int, bound: Bounds, proven: Offsets) -> int:
    """The start of the first transaction of which all maps are retained."""
    if bound.start <= proven.get((context.names.provenance, partition), 0):
        return 0
    return first_complete_map(context.kafka, context.names.provenance, partition)


def first_complete_map(kafka: Connection, provenance_topic: str, partition: int) -> int:
    """The source offset from which on transactions have all their maps, although retention took earlier ones."""
    maps = map(provenance.read, read_partition(kafka, provenance_topic, partition))
    first = next((one for one in maps if not one.of_repair), None)
    return FOREVER if first is None else first.start + 1  # some maps of that transaction may be gone


def code_start(rows: LedgerRows, code_version: str) -> int:
    """The source offset from which on everything was written by this version of the code."""
    others = [row for row in rows if isinstance(row, LedgerEntry) and row.code_version != code_version]
    return others[-1].next if others else 0


def first_offsets(topic_bounds: TopicBounds, proven: Offsets) -> Offsets:
    """Where reading begins in each topic and partition."""
    return {
        (topic, p): max(proven.get((topic, p), 0), bound.start)
        for topic, partitions in topic_bounds.items()
        for p, bound in partitions.items()
    }


def next_checkpoint(
    context: PipelineContext,
    ledger_ends: dict[int, int],
    topic_bounds: TopicBounds,
    windows: dict[int, PartitionWindow],
) -> Offsets:
    """The checkpoint of this proof, if it holds."""
    source = context.pipeline.source.name
    return {
        **{(context.names.ledger, p): end for p, end in ledger_ends.items()},
        **{(topic, p): bound.stable for topic, partitions in topic_bounds.items() for p, bound in partitions.items()},
        **{(source, p): w.end for p, w in windows.items() if w.position is not None},
    }


def highest(offsets: list[Offsets]) -> Offsets:
    """The highest offset of each topic and partition."""
    result: Offsets = {}
    for one in offsets:
        for place, offset in one.items():
            result[place] = max(result.get(place, offset), offset)
    return result
