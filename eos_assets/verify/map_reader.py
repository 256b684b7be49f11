"""The provenance maps of a window, read once by the driver: what they claim about the source, and the parts of them
that name the records of each sink partition.

Maps take about a byte per record, often much less, so the driver reads them itself. It holds the rows of one
transaction at a time; the encoded messages are kept for the tasks that walk along the sinks.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import Message

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import provenance
from eos_assets.log.provenance import ProvenanceMap
from eos_assets.verify.context import Case, Scope
from eos_assets.verify.sorted_rows import Flags, Integers, changes
from eos_assets.verify.totals import NOTHING, Total, hash_rows, total
from eos_assets.verify.window import Window

#: More encoded maps than this are not sent to tasks. At a byte per record that is 32 million records.
LARGEST_BYTES = 32 << 20
MOST_SET_ASIDE = 100_000


@dataclass(frozen=True)
class MapPart:
    """One message of a provenance topic, for the task that reads the sink partition it names."""

    first: int
    source_partition: int
    start: int
    in_scope: bool
    value: bytes


class NotClean(Exception):
    """Something is wrong, or cannot be decided from totals: every row has to be compared."""


@dataclass
class MapClaims:
    """What the maps of a window claim."""

    #: Topic number and partition → the messages that name its records.
    parts: dict[tuple[int, int], list[MapPart]] = field(default_factory=lambda: defaultdict(list))
    #: Rows of records that a task must find, and rows of transactions after the window.
    named: int = 0
    newer: int = 0
    #: Every origin once; every row of the code of today by its origin.
    origins: Total = NOTHING
    rows: Total = NOTHING
    #: Source partition and start of a transaction → its origins.
    per_transaction: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Origins of which nothing came but dead letters.
    set_aside: list[tuple[int, int]] = field(default_factory=list)


class MapReader:
    """Reads the maps of one window and raises `NotClean` where they contradict themselves or the ledger."""

    def __init__(self, connection: Connection, topic: str, window: Window, case: Case, *, isolates: bool) -> None:
        self.connection = connection
        self.topic = topic
        self.window = window
        self.case = case
        self.isolates = isolates
        self.numbers = {name: number for number, name in enumerate(case.topics)}
        self.ends = {(p, entry.start): entry.next for p, w in window.partitions.items() for entry in w.entries}
        self.claims = MapClaims()
        self.bytes = 0
        #: Source partition → the end of its last transaction, or of what was proven before.
        self.last_end = {p: scope.proven for p, scope in case.scopes.items() if case.incremental}
        #: Source partition, topic and partition → the last row: sink offset, source offset, sequence.
        self.last_row: dict[tuple[int, str, int], tuple[int, int, int]] = {}

    def read(self) -> MapClaims:
        starts = {(self.topic, r.partition): r.start for r in self.window.ranges(self.topic) if r.size}
        ends = {r.partition: r.end for r in self.window.ranges(self.topic)}
        #: Partition of the topic → the maps of a transaction of which more may follow.
        pending: dict[int, list[ProvenanceMap]] = {}
        for message in read_partitions(self.connection, starts):
            place = message.partition() or 0
            if (message.offset() or 0) >= ends[place]:
                continue
            found = self.keep(message)
            together = pending.setdefault(place, [])
            if together and transaction_of(together[0]) != transaction_of(found):
                self.take(together)
                together.clear()
            together.append(found)
        for together in pending.values():
            self.take(together)
        return self.claims

    def take(self, maps: list[ProvenanceMap]) -> None:
        partition, start = transaction_of(maps[0])
        scope = self.case.scopes.get(partition)
        if scope is None or not scope.start <= start < scope.end:
            self.take_other(maps, scope)
        else:
            self.take_transaction(partition, start, scope, maps)

    def keep(self, message: Message) -> ProvenanceMap:
        """Decodes a message, and keeps it for the sink partition that it names."""
        value = message.value() or b""
        self.bytes += len(value)
        if self.bytes > LARGEST_BYTES:
            raise NotClean("the maps are too large to be sent to tasks")
        found = provenance.read(message)
        number = self.numbers.get(found.topic)
        if number is not None and len(found.sink_offsets):
            scope = self.case.scopes.get(found.source_partition)
            inside = scope is not None and scope.start <= found.start < scope.end
            part = MapPart(int(found.sink_offsets[0]), found.source_partition, found.start, inside, value)
            self.claims.parts[number, found.partition].append(part)
            self.claims.named += len(found.sink_offsets) * inside
        return found

    def take_other(self, maps: list[ProvenanceMap], scope: Scope | None) -> None:
        """Maps of a transaction that this proof does not cover: an earlier one must not come again."""
        for one in maps:
            end, proven = (scope.end, scope.proven) if scope else (0, 0)
            self.claims.newer += len(one.source_offsets) * (one.start >= end)
            if self.case.incremental and one.start < proven and (one.sink_offsets >= 0).any():
                raise NotClean("a transaction that was proven before is mapped again")

    def take_transaction(self, partition: int, start: int, scope: Scope, maps: list[ProvenanceMap]) -> None:
        """One transaction: its outputs rise in every sink partition and are named once, within its range."""
        end = self.ends.get((partition, start))
        if end is None or start < self.last_end.get(partition, 0):
            raise NotClean("a transaction without an entry, one that is mapped twice, or one that overlaps another")
        self.last_end[partition] = end
        for one in maps:
            self.check_order(one)
        offsets = np.concatenate([one.source_offsets for one in maps])
        if len(offsets) and (offsets.min() < start or offsets.max() >= end):
            raise NotClean("an origin outside of its transaction")
        self.check_sequences(maps, start)
        origins = np.sort(offsets)
        origins = origins[changes(origins) & (origins >= scope.source_start)]
        self.claims.per_transaction[partition, start] = len(origins)
        self.claims.origins += total(hash_rows(origins, partition))
        today = offsets[offsets >= scope.same_code]
        self.claims.rows += total(hash_rows(today, partition))
        if self.isolates:
            self.note_set_aside(partition, maps)

    def check_order(self, one: ProvenanceMap) -> None:
        if not len(one.sink_offsets) or one.skips:
            return
        place = (one.source_partition, one.topic, one.partition)
        before = self.last_row.get(place, (-1, -1, -1))
        sink, source, sequence = (
            np.concatenate([[last], column])
            for last, column in zip(before, (one.sink_offsets, one.source_offsets, one.sequences), strict=True)
        )
        if not (np.diff(sink) > 0).all() or not rises(source, sequence).all():
            raise NotClean("outputs that are not in the order of their origins")
        self.last_row[place] = (int(sink[-1]), int(source[-1]), int(sequence[-1]))

    def check_sequences(self, maps: list[ProvenanceMap], start: int) -> None:
        """No origin has two outputs with one sequence, in whatever sink partitions."""
        outputs = [one for one in maps if len(one.sink_offsets) and not one.skips]
        if not outputs:
            return
        offsets = np.concatenate([one.source_offsets for one in outputs]) - start
        sequences = np.concatenate([one.sequences for one in outputs])
        width = int(sequences.max()) + 1
        if sequences.min() < 0 or int(offsets.max() + 1) * width >= 1 << 63:
            raise NotClean("sequences that do not fit into one integer")
        keys = np.sort(offsets * width + sequences)
        if not (np.diff(keys) > 0).all():
            raise NotClean("an origin with two outputs of one sequence")

    def note_set_aside(self, partition: int, maps: list[ProvenanceMap]) -> None:
        letters = self.case.topics[-1]
        dead = [one.source_offsets for one in maps if one.topic == letters]
        if dead:
            others = [one.source_offsets for one in maps if one.topic != letters] or [np.zeros(0, np.int64)]
            alone = np.setdiff1d(np.concatenate(dead), np.concatenate(others))
            self.claims.set_aside += [(partition, offset) for offset in alone.tolist()]
        if len(self.claims.set_aside) > MOST_SET_ASIDE:
            raise NotClean("too many origins were set aside to be sent to tasks")


def transaction_of(one: ProvenanceMap) -> tuple[int, int]:
    return one.source_partition, one.start


def rises(source: Integers, sequence: Integers) -> Flags:
    """Whether each row but the first has a higher origin than the row before it."""
    step = np.diff(source)
    higher: Flags = (step > 0) | ((step == 0) & (np.diff(sequence) > 0))
    return higher
