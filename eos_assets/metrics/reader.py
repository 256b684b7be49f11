"""Reads from the brokers what the metrics show. What was read before is not read again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from confluent_kafka.admin import ClusterMetadata

from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds_of
from eos_assets.kafka.reader import PartitionId, read_partitions
from eos_assets.log import ledger
from eos_assets.log.corrupt_entry import CorruptEntry
from eos_assets.metrics.dead_letter_reasons import DeadLetterReasons
from eos_assets.metrics.first_seen import FirstSeen
from eos_assets.metrics.totals import LedgerTotals
from eos_assets.verify.last_proof import LastProof, read_last_proof


@dataclass(frozen=True)
class PartitionState:
    """One source partition at one moment."""

    totals: LedgerTotals
    position: int
    bounds: Bounds
    #: For how long this process has seen it lag at the same position.
    lagging_seconds: float

    @property
    def lag(self) -> int:
        return max(0, self.bounds.stable - self.position)


@dataclass(frozen=True)
class PipelineState:
    """One pipeline at one moment, or why it cannot be read."""

    pipeline: Pipeline
    problem: str = ""
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    #: Topic and partition → for how long this process has seen its oldest open transaction.
    open_seconds: Mapping[PartitionId, float] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    proof: LastProof = field(default_factory=LastProof)


class ReadProgress:
    """Up to where one topic has been read."""

    def __init__(self) -> None:
        self.ends: dict[PartitionId, int] = {}

    def starts(self, ends: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
        """Where to read each partition from that has new records."""
        known = {place: self.ends.get(place, 0) for place in ends}
        return {place: start for place, start in known.items() if start < ends[place]}

    def is_shorter(self, ends: Mapping[PartitionId, int]) -> bool:
        """Whether a partition ends before what was read of it: the topic was deleted and created again."""
        return any(end < self.ends.get(place, 0) for place, end in ends.items())


class PipelineReader:
    """Follows one pipeline: its ledger, its dead letters, its open transactions and its proofs."""

    def __init__(self, pipeline: Pipeline, connection: Connection) -> None:
        self.pipeline = pipeline
        self.connection = connection
        self.names = pipeline.names()
        self.first_seen = FirstSeen()
        self._forget()

    def _forget(self) -> None:
        self.totals: dict[int, LedgerTotals] = {}
        self.reasons = DeadLetterReasons(self.pipeline.name)
        self.entries, self.dead_letters = ReadProgress(), ReadProgress()

    @property
    def topics(self) -> list[str]:
        """The topics of its transactions. The changelogs of a state are written in the same ones."""
        names = self.names
        return [names.source, *(sink.name for sink in self.pipeline.sinks), names.dead_letters, names.ledger]

    def read(self, bounds: Mapping[PartitionId, Bounds]) -> PipelineState:
        """Read what is new up to these bounds, which are those of its topics and perhaps of others."""
        own = {place: bound for place, bound in bounds.items() if place[0] in self.topics}
        ends = {place: bound.stable for place, bound in own.items()}
        ledger_ends = {place: end for place, end in ends.items() if place[0] == self.names.ledger}
        if self.entries.is_shorter(ledger_ends):
            self._forget()
        self._read_ledger(ledger_ends)
        self._read_dead_letters({place: end for place, end in ends.items() if place[0] == self.names.dead_letters})
        source = {partition: bound for (topic, partition), bound in own.items() if topic == self.names.source}
        return PipelineState(
            self.pipeline,
            partitions={partition: self._partition(partition, bound) for partition, bound in sorted(source.items())},
            open_seconds={place: self._open_seconds(place, bound) for place, bound in sorted(own.items())},
            reasons=dict(self.reasons.counts),
            proof=read_last_proof(self.connection, self.names),
        )

    def _read_ledger(self, ends: Mapping[PartitionId, int]) -> None:
        starts = self.entries.starts(ends)
        for message in read_partitions(self.connection, starts, ends):
            place = (message.topic() or "", message.partition() or 0)
            self.totals.setdefault(place[1], LedgerTotals()).add(ledger.read(message))
            self.entries.ends[place] = (message.offset() or 0) + 1
        self.entries.ends |= {place: ends[place] for place in starts}

    def _read_dead_letters(self, ends: Mapping[PartitionId, int]) -> None:
        starts = self.dead_letters.starts(ends)
        for message in read_partitions(self.connection, starts, ends):
            self.reasons.add(message)
            self.dead_letters.ends[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1
        self.dead_letters.ends |= {place: ends[place] for place in starts}

    def _partition(self, partition: int, bounds: Bounds) -> PartitionState:
        totals = self.totals.setdefault(partition, LedgerTotals())
        position = bounds.start if totals.position is None else totals.position
        at = position if position < bounds.stable else None
        unchanging = replace(totals, buckets=list(totals.buckets))
        return PartitionState(unchanging, position, bounds, self.first_seen.seconds(("lag", partition), at))

    def _open_seconds(self, place: PartitionId, bounds: Bounds) -> float:
        """The first open transaction begins at the last stable offset."""
        return self.first_seen.seconds(place, bounds.stable if bounds.stable < bounds.high else None)


class ClusterReader:
    """Follows several pipelines of one cluster, with one request for the offsets of all of them."""

    def __init__(self, pipelines: Iterable[Pipeline], connection: Connection) -> None:
        self.connection = connection
        self.readers = [PipelineReader(pipeline, connection) for pipeline in pipelines]

    def read(self) -> list[PipelineState]:
        """The present state of every pipeline. Raises if no broker answers."""
        metadata = self.connection.metadata()
        problems = {reader.pipeline.name: missing_topics(reader.topics, metadata) for reader in self.readers}
        readable = [reader for reader in self.readers if not problems[reader.pipeline.name]]
        bounds = bounds_of(self.connection, partitions_of(readable, metadata))
        return [
            self._read(reader, bounds)
            if reader in readable
            else PipelineState(reader.pipeline, problems[reader.pipeline.name])
            for reader in self.readers
        ]

    def _read(self, reader: PipelineReader, bounds: Mapping[PartitionId, Bounds]) -> PipelineState:
        try:
            return reader.read(bounds)
        except CorruptEntry as error:
            return PipelineState(reader.pipeline, error.problem)


def partitions_of(readers: Sequence[PipelineReader], metadata: ClusterMetadata) -> list[PartitionId]:
    topics = sorted({topic for reader in readers for topic in reader.topics})
    return [(topic, partition) for topic in topics for partition in metadata.topics[topic].partitions]


def missing_topics(topics: Iterable[str], metadata: ClusterMetadata) -> str:
    """Why a pipeline cannot be read; empty if it can."""
    missing = [topic for topic in topics if topic not in metadata.topics]
    return f"These topics do not exist yet: {', '.join(missing)}." if missing else ""
