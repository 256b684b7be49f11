"""Trace a sink record to its origin, or a source record to its outputs, in the provenance maps."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger, provenance
from eos_assets.log.ledger import Amendment, LedgerEntry
from eos_assets.log.provenance import SKIPPED, ProvenanceMap
from eos_assets.run.plan import make_plan


@dataclass(frozen=True)
class Link:
    """One output, or one skip, with its source record and its transaction."""

    source: str
    became: str
    sequence: int
    entry: LedgerEntry | Amendment | None


def origin_of(pipeline: Pipeline, connection: Connection, topic: str, partition: int, offset: int) -> Link | None:
    """The source record of one sink record; None if no committed map names it."""
    for source_partition in connection.partitions(pipeline.source.name):
        for one in read_maps(pipeline, connection, source_partition):
            if (one.topic, one.partition) != (topic, partition):
                continue
            row = int(np.searchsorted(one.sink_offsets, offset))
            if row < len(one.sink_offsets) and one.sink_offsets[row] == offset:
                return link(pipeline, one, row, entry_of(pipeline, connection, one.source_partition, one.start))
    return None


def outcome_of(pipeline: Pipeline, connection: Connection, partition: int, offset: int) -> list[Link]:
    """What became of one source record: outputs, dead letters or a skip; empty if nothing yet."""
    bound = bounds(connection, pipeline.source.name, [partition])[partition]
    links: list[Link] = []
    if offset < bound.high:  # maps may outlive their source records
        links = sorted(links_of(pipeline, connection, partition, offset), key=lambda link: link.sequence)
    if not links and not bound.start <= offset < bound.high:
        raise offset_out_of_range(f"{pipeline.source.name}/{partition}", offset, bound)
    return links


def offset_out_of_range(place: str, offset: int, bound: Bounds) -> EosError:
    deleted = f"; {offset} was deleted, and no map names it" if offset < bound.start else ""
    if bound.start == bound.high:
        return EosError(f"{place} is empty{deleted}.", "Choose another partition.")
    reason = deleted or f"; {offset} is not among them"
    return EosError(f"{place} holds the offsets {bound.start} to {bound.high - 1}{reason}.", "Choose one of those.")


def explain_missing_origin(connection: Connection, topic: str, partition: int, offset: int) -> str:
    """Why no map names a sink record."""
    bound = bounds(connection, topic, [partition])[partition]
    if offset < bound.high:
        return "no committed map names it: a marker, or aborted, or foreign"
    return "the partition is empty" if bound.start == bound.high else f"the partition ends at {bound.high}"


def explain_missing_outcome(pipeline: Pipeline, connection: Connection, partition: int, offset: int) -> str:
    """Why no map names a source record."""
    (plan,) = make_plan(pipeline, connection, partitions=[partition])
    if offset >= plan.position:
        return "not yet processed"
    if next(read_partition(connection, pipeline.source.name, partition, offset, offset + 1), None) is None:
        return "no record: a marker, or aborted"
    if pipeline.drops:
        return "dropped by the transform"
    return "processed; retention has removed the map that names its outcome"


def read_maps(pipeline: Pipeline, connection: Connection, partition: int) -> Iterator[ProvenanceMap]:
    for message in read_partition(connection, pipeline.names().provenance, partition):
        yield provenance.read(message)


def links_of(pipeline: Pipeline, connection: Connection, partition: int, offset: int) -> Iterator[Link]:
    if partition not in connection.partitions(pipeline.names().provenance):
        return  # the source has grown, and no run has read it yet
    cached_entry = functools.cache(lambda start: entry_of(pipeline, connection, partition, start))
    for one in read_maps(pipeline, connection, partition):
        for row in np.flatnonzero(one.source_offsets == offset):
            yield link(pipeline, one, int(row), cached_entry(one.start))


def link(pipeline: Pipeline, one: ProvenanceMap, row: int, entry: LedgerEntry | Amendment | None) -> Link:
    is_skip = one.partition < 0  # a sink may have the name that maps of skips have for a topic
    return Link(
        source=f"{pipeline.source.name}/{one.source_partition}/{one.source_offsets[row]}",
        became=SKIPPED if is_skip else f"{one.topic}/{one.partition}/{one.sink_offsets[row]}",
        sequence=int(one.sequences[row]),
        entry=entry,
    )


def entry_of(pipeline: Pipeline, connection: Connection, partition: int, start: int) -> LedgerEntry | Amendment | None:
    """The ledger entry of the transaction that began at this source offset; below 0, of the repair with this number."""
    for message in read_partition(connection, pipeline.names().ledger, partition):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry | Amendment) and entry.start == start:
            return entry
    return None
