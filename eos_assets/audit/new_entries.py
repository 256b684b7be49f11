"""Read the ledger entries that the audit tables lack."""

from collections.abc import Iterable

from eos_assets.audit.marks import Reached, TablesReached
from eos_assets.context import PipelineContext
from eos_assets.kafka.offsets import await_stable, bounds
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry

#: How long to wait until the maps and outputs of an entry can be read.
PATIENCE_SECONDS = 10.0
#: Entries with their offsets in the ledger.
Entries = list[tuple[int, LedgerEntry]]


def read_new_entries(context: PipelineContext, reached: TablesReached) -> Entries:
    """The entries that a table lacks, up to the first one whose maps or outputs cannot be read yet: a commit becomes
    visible in one partition after another."""
    known = reached.transactions
    ends = {p: bound.stable for p, bound in bounds(context.kafka, context.names.ledger).items()}
    entries = read_entries(context, {p: known.get(p, 0) for p in ends}, ends)
    if incomplete := partitions_without_deliveries(entries, reached):
        others = [(offset, entry) for offset, entry in entries if entry.partition not in incomplete]
        entries = [*others, *read_entries(context, dict.fromkeys(incomplete, 0), ends)]
    new = [(offset, entry) for offset, entry in entries if offset > known.get(entry.partition, -1)]
    unstable = unstable_partitions(context, (entry for _, entry in new))
    for offset, entry in new:
        if is_unstable(context, entry, unstable):
            ends[entry.partition] = min(ends[entry.partition], offset)
    return [(offset, entry) for offset, entry in entries if offset < ends[entry.partition]]


def read_entries(context: PipelineContext, starts: dict[int, int], ends: dict[int, int]) -> Entries:
    entries: Entries = []
    places = {(context.names.ledger, p): start for p, start in starts.items()}
    for message in read_partitions(context.kafka, places):
        offset, entry = message.offset() or 0, ledger.read(message)
        if isinstance(entry, LedgerEntry) and offset < ends[entry.partition]:
            entries.append((offset, entry))
    return entries


def partitions_without_deliveries(entries: Entries, reached: TablesReached) -> list[int]:
    """Partitions for which an update wrote the transactions and not their deliveries. Only the whole ledger has all of
    those transactions."""
    last: Reached = {
        entry.partition: entry.start
        for offset, entry in entries
        if offset == reached.transactions.get(entry.partition) and entry.sinks
    }
    return [p for p, start in last.items() if start > reached.deliveries.get(p, -1)]


def unstable_partitions(context: PipelineContext, entries: Iterable[LedgerEntry]) -> dict[tuple[str, int], int]:
    """The topics and partitions of maps and outputs that are not stable in time up to what these entries need, and
    their last stable offsets."""
    provenance = context.names.provenance
    needed = {(provenance, p): bound.high for p, bound in bounds(context.kafka, provenance).items()}
    for written in (written for entry in entries for written in entry.sinks):
        place = (written.topic, written.partition)
        needed[place] = max(needed.get(place, 0), written.last + 1)
    existing = {topic for topic, _ in needed} & set(context.kafka.metadata().topics)
    current = await_stable(context.kafka, existing, needed, PATIENCE_SECONDS)
    return {
        (t, p): current[t][p].stable for (t, p), end in needed.items() if t in current and current[t][p].stable < end
    }


def is_unstable(context: PipelineContext, entry: LedgerEntry, unstable: dict[tuple[str, int], int]) -> bool:
    """Whether the maps or outputs of an entry cannot be read yet."""
    if (context.names.provenance, entry.partition) in unstable:
        return True
    return any(w.last >= unstable.get((w.topic, w.partition), w.last + 1) for w in entry.sinks)
