"""Where a sink record came from, and what became of a source record: read from the provenance maps."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger, provenance
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.provenance import SKIPPED, ProvenanceMap
from eos_assets.run.plan import make_plan


@dataclass(frozen=True)
class Link:
    """One output, or one skip, tied to its source record and its transaction."""

    source: str
    became: str
    sequence: int
    entry: LedgerEntry | None


def maps(pipeline: Pipeline, connection: Connection, partition: int) -> Iterator[ProvenanceMap]:
    for message in read_partition(connection, pipeline.names().provenance, partition):
        yield provenance.read(message)


def origin_of(pipeline: Pipeline, connection: Connection, topic: str, partition: int, offset: int) -> Link | None:
    """The source record of one sink record; None if no committed map names it."""
    for source_partition in connection.partitions(pipeline.source.name):
        for found in maps(pipeline, connection, source_partition):
            if (found.topic, found.partition) != (topic, partition):
                continue
            at = int(np.searchsorted(found.sink_offsets, offset))
            if at < len(found.sink_offsets) and found.sink_offsets[at] == offset:
                entry = entry_of(pipeline, connection, found.source_partition, found.start)
                return link(pipeline, found, at, entry)
    return None


def outcome_of(pipeline: Pipeline, connection: Connection, partition: int, offset: int) -> list[Link]:
    """What became of one source record: outputs, dead letters or a skip; empty if nothing yet."""
    there = bounds(connection, pipeline.source.name, [partition])[partition]
    found: list[Link] = []
    if offset < there.high:  # maps may outlive their source records
        found = sorted(links_of(pipeline, connection, partition, offset), key=lambda one: one.sequence)
    if not found and not there.start <= offset < there.high:
        place, deleted = f"{pipeline.source.name}/{partition}", f"; {offset} was deleted, and no map names it"
        if there.start == there.high:
            raise EosError(f"{place} is empty{deleted * (offset < there.start)}.", "Choose another partition.")
        why = deleted if offset < there.start else f"; {offset} is not among them"
        raise EosError(f"{place} holds the offsets {there.start} to {there.high - 1}{why}.", "Choose one of those.")
    return found


def unnamed(connection: Connection, topic: str, partition: int, offset: int) -> str:
    """Why no map names a sink record."""
    there = bounds(connection, topic, [partition])[partition]
    if offset < there.high:
        return "no committed map names it: a marker, or aborted, or foreign"
    return "the partition is empty" if there.start == there.high else f"the partition ends at {there.high}"


def links_of(pipeline: Pipeline, connection: Connection, partition: int, offset: int) -> Iterator[Link]:
    if partition not in connection.partitions(pipeline.names().provenance):
        return  # the source has grown, and no run has seen it yet
    entry_at = functools.cache(lambda start: entry_of(pipeline, connection, partition, start))
    for found in maps(pipeline, connection, partition):
        for at in np.flatnonzero(found.source_offsets == offset):
            yield link(pipeline, found, int(at), entry_at(found.start))


def without_output(pipeline: Pipeline, connection: Connection, partition: int, offset: int) -> str:
    """Why nothing names a source record."""
    (plan,) = make_plan(pipeline, connection, partitions=[partition])
    if offset >= plan.position:
        return "not yet processed"
    if next(read_partition(connection, pipeline.source.name, partition, offset, offset + 1), None) is None:
        return "no record: a marker, or aborted"
    if pipeline.drops:
        return "dropped by the transform"
    return "processed; retention has taken the map that says what it became"


def link(pipeline: Pipeline, found: ProvenanceMap, at: int, entry: LedgerEntry | None) -> Link:
    skipped = found.partition < 0  # a sink may have that name
    became = SKIPPED if skipped else f"{found.topic}/{found.partition}/{found.sink_offsets[at]}"
    return Link(
        source=f"{pipeline.source.name}/{found.source_partition}/{found.source_offsets[at]}",
        became=became,
        sequence=int(found.sequences[at]),
        entry=entry,
    )


def entry_of(pipeline: Pipeline, connection: Connection, partition: int, start: int) -> LedgerEntry | None:
    """The ledger entry of the transaction that began at this source offset."""
    for message in read_partition(connection, pipeline.names().ledger, partition):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry) and entry.start == start:
            return entry
    return None
