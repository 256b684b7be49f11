"""Read the ledger from the checkpoint of the last proof on."""

from collections.abc import Mapping
from dataclasses import dataclass

from eos_assets.context import PipelineContext
from eos_assets.kafka.offsets import bounds, stable_ends
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.run.preflight.topics import existing_topics
from eos_assets.verify import checkpoint
from eos_assets.verify.checkpoint import Offsets
from eos_assets.verify.window.window import PartitionWindow

LedgerRows = list[Genesis | LedgerEntry]


@dataclass(frozen=True)
class LedgerWindow:
    """The ledger since the last proof, and what that proof covered."""

    partitions: dict[int, PartitionWindow]
    #: Ledger partition → where its window ends.
    ends: dict[int, int]
    #: Topic and partition → the checkpoint of the last proof; empty if there is none.
    proven: Offsets
    #: The sinks, declared and, as far as they still exist, named by the ledger; then the dead letters.
    written_topics: list[str]


def read_ledger_window(context: PipelineContext, *, full: bool) -> LedgerWindow:
    """Read the ledger since the last proof or, in full, from its start."""
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
    rows = read_ledger(context, ends, proven)
    former = former_sinks(context, rows, declared)
    if former and proven:
        proven |= checkpoint.load(kafka, names, [(topic, p) for topic in former for p in kafka.partitions(topic)])
    partitions = {p: PartitionWindow(p, rows[p], last_proven(context, p, proven)) for p in source_partitions}
    return LedgerWindow(partitions, ends, proven, [*declared[:-1], *former, declared[-1]])


def load_checkpoint(context: PipelineContext, topics: list[str], places: list[tuple[str, int]]) -> Offsets:
    """The offsets up to which everything is proven; none if a topic ends before one of them: records that were proven
    are gone, and a proof of everything shows which."""
    proven = checkpoint.load(context.kafka, context.names, places)
    ends = {(t, p): bound.high for t in topics if proven for p, bound in bounds(context.kafka, t).items()}
    return {} if any(proven.get(place, 0) > end for place, end in ends.items()) else proven


def last_proven(context: PipelineContext, partition: int, proven: Offsets) -> int | None:
    """The position at the last proof. Without a checkpoint of the ledger, that of the source is of an earlier one."""
    if (context.names.ledger, partition) not in proven:
        return None
    return proven.get((context.pipeline.source.name, partition))


def read_ledger(context: PipelineContext, ends: dict[int, int], proven: Offsets) -> dict[int, LedgerRows]:
    """The ledger since the last proof. That of a weaker delivery is not atomic with the output, and is not read."""
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
        written.topic
        for partition_rows in rows.values()
        for row in partition_rows
        for written in (row.sinks if isinstance(row, LedgerEntry) else ())
    }
    return sorted((named - set(declared)) & set(context.kafka.metadata().topics))
