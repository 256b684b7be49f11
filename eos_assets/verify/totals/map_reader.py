"""Read the provenance maps of a window: what they claim about the source, and which sink records they name.

Maps take about a byte per record, often much less, so the driver reads them itself. It holds the rows of one
transaction at a time; the encoded messages are kept for the tasks that read the sinks.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import Message

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import provenance
from eos_assets.log.provenance import ProvenanceMap
from eos_assets.verify.scope import PartitionScope, ProofScope
from eos_assets.verify.sorted_rows import Flags, Integers, changes
from eos_assets.verify.totals.total import NOTHING, Total, UndecidedError, hash_rows, total
from eos_assets.verify.window.window import Window


@dataclass(frozen=True)
class MapMessage:
    """One message of a provenance topic, for the task that reads the sink partition it names."""

    #: The sink offset of its first row.
    first: int
    source_partition: int
    start: int
    in_scope: bool
    value: bytes


@dataclass(frozen=True)
class MapRows:
    """Rows of maps in the order of one sink partition: the records that they name, and their origins."""

    sink_offset: Integers
    source_offset: Integers
    #: The number of the message that a row is from.
    message: Integers

    def sort(self) -> "MapRows":
        return self.take(np.argsort(self.sink_offset, kind="stable"))

    def take(self, rows: Integers | slice) -> "MapRows":
        return MapRows(self.sink_offset[rows], self.source_offset[rows], self.message[rows])

    @staticmethod
    def concatenate(parts: "list[MapRows]") -> "MapRows":
        return MapRows(
            np.concatenate([rows.sink_offset for rows in parts]),
            np.concatenate([rows.source_offset for rows in parts]),
            np.concatenate([rows.message for rows in parts]),
        )


NO_ROWS = MapRows(*(np.zeros(0, np.int64) for _ in range(3)))


class MergedMaps:
    """Merges messages by sink offset. Each is decoded only when the pass gets to it."""

    def __init__(self, messages: list[MapMessage]) -> None:
        self.messages = sorted(messages, key=lambda message: message.first)
        self.decoded = 0
        self.waiting = NO_ROWS

    def upto(self, last: int) -> MapRows:
        """The rows up to this sink offset that were not returned before."""
        parts = [self.waiting]
        while self.decoded < len(self.messages) and self.messages[self.decoded].first <= last:
            rows = provenance.load(self.messages[self.decoded].value)
            number = np.full(len(rows.sink_offsets), self.decoded)
            parts.append(MapRows(rows.sink_offsets, rows.source_offsets, number))
            self.decoded += 1
        merged = MapRows.concatenate(parts).sort() if len(parts) > 1 else self.waiting
        cut = int(np.searchsorted(merged.sink_offset, last, "right"))
        self.waiting = merged.take(slice(cut, None))
        return merged.take(slice(0, cut))


#: More encoded maps than this are not sent to tasks. At a byte per record that is 32 million records.
LARGEST_BYTES = 32 << 20
MOST_SET_ASIDE = 100_000


@dataclass
class MapClaims:
    """What the maps of a window claim."""

    #: Topic number and partition → the messages that name its records.
    messages: dict[tuple[int, int], list[MapMessage]] = field(default_factory=lambda: defaultdict(list))
    #: Rows of records that a task must find, and rows of transactions after the window.
    named: int = 0
    newer: int = 0
    #: Every origin once; every row of the current code by its origin.
    origins: Total = NOTHING
    rows: Total = NOTHING
    #: Source partition and start of a transaction → the number of its origins.
    per_transaction: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Origins that have nothing but dead letters.
    set_aside: list[tuple[int, int]] = field(default_factory=list)


class MapReader:
    """Reads the maps of one window and raises `UndecidedError` where they contradict themselves or the ledger."""

    def __init__(
        self, connection: Connection, topic: str, window: Window, scope: ProofScope, *, isolates: bool
    ) -> None:
        self.connection = connection
        self.topic = topic
        self.window = window
        self.scope = scope
        self.isolates = isolates
        self.topic_numbers = {name: number for number, name in enumerate(scope.topics)}
        self.ends = {(p, entry.start): entry.next for p, w in window.partitions.items() for entry in w.entries}
        self.claims = MapClaims()
        self.bytes = 0
        #: Source partition → the end of its last transaction, or of what was proven before.
        self.last_end = {p: covered.proven for p, covered in scope.partitions.items() if scope.incremental}
        #: Source partition, topic and partition → the last row: sink offset, source offset, sequence.
        self.last_row: dict[tuple[int, str, int], tuple[int, int, int]] = {}

    def read(self) -> MapClaims:
        starts = {(self.topic, r.partition): r.start for r in self.window.ranges(self.topic) if r.size}
        ends = {r.partition: r.end for r in self.window.ranges(self.topic)}
        #: Partition of the topic → the maps of a transaction of which more may follow.
        pending: dict[int, list[ProvenanceMap]] = {}
        for message in read_partitions(self.connection, starts):
            partition = message.partition() or 0
            if (message.offset() or 0) >= ends[partition]:
                continue
            decoded = self.decode(message)
            together = pending.setdefault(partition, [])
            if together and transaction_of(together[0]) != transaction_of(decoded):
                self.check(together)
                together.clear()
            together.append(decoded)
        for together in pending.values():
            self.check(together)
        return self.claims

    def decode(self, message: Message) -> ProvenanceMap:
        """Decode a message, and keep it for the sink partition that it names."""
        value = message.value() or b""
        self.bytes += len(value)
        if self.bytes > LARGEST_BYTES:
            raise UndecidedError("the maps are too large to be sent to tasks")
        decoded = provenance.read(message)
        if decoded.of_repair:
            raise UndecidedError("a repair, whose records follow later ones")
        number = self.topic_numbers.get(decoded.topic)
        if number is not None and len(decoded.sink_offsets):
            covered = self.covers(decoded)
            first = int(decoded.sink_offsets[0])
            self.claims.messages[number, decoded.partition].append(
                MapMessage(first, decoded.source_partition, decoded.start, covered, value)
            )
            self.claims.named += len(decoded.sink_offsets) * covered
        return decoded

    def covers(self, one: ProvenanceMap) -> bool:
        partition = self.scope.partitions.get(one.source_partition)
        return partition is not None and partition.start <= one.start < partition.end

    def check(self, maps: list[ProvenanceMap]) -> None:
        """Check all maps of one transaction and add up their claims."""
        partition_scope = self.scope.partitions.get(maps[0].source_partition)
        if partition_scope is not None and self.covers(maps[0]):
            self.check_transaction(partition_scope, maps)
        else:
            self.check_other(partition_scope, maps)

    def check_other(self, partition_scope: PartitionScope | None, maps: list[ProvenanceMap]) -> None:
        """Check a transaction that this proof does not cover: an earlier one must not be mapped again."""
        end, proven = (partition_scope.end, partition_scope.proven) if partition_scope else (0, 0)
        for one in maps:
            self.claims.newer += len(one.source_offsets) * (one.start >= end)
            if self.scope.incremental and one.start < proven and (one.sink_offsets >= 0).any():
                raise UndecidedError("a transaction that was proven before is mapped again")

    def check_transaction(self, partition_scope: PartitionScope, maps: list[ProvenanceMap]) -> None:
        """Check one transaction: its outputs rise in every sink partition and are named once, within its range."""
        partition, start = transaction_of(maps[0])
        end = self.ends.get((partition, start))
        if end is None or start < self.last_end.get(partition, 0):
            raise UndecidedError(
                "a transaction without an entry, one that is mapped twice, or one that overlaps another"
            )
        self.last_end[partition] = end
        for one in maps:
            self.check_order(one)
        offsets = np.concatenate([one.source_offsets for one in maps])
        if len(offsets) and (offsets.min() < start or offsets.max() >= end):
            raise UndecidedError("an origin outside of its transaction")
        self.check_sequences(maps, start)
        origins = np.sort(offsets)
        origins = origins[changes(origins) & (origins >= partition_scope.source_start)]
        self.claims.per_transaction[partition, start] = len(origins)
        self.claims.origins += total(hash_rows(origins, partition))
        self.claims.rows += total(hash_rows(offsets[offsets >= partition_scope.recompute_start], partition))
        if self.isolates:
            self.add_set_aside(partition, maps)

    def check_order(self, one: ProvenanceMap) -> None:
        """Check that sink offsets and origins rise, across messages."""
        if not len(one.sink_offsets) or one.skips:
            return
        place = (one.source_partition, one.topic, one.partition)
        last = self.last_row.get(place, (-1, -1, -1))
        sink, source, sequence = (
            np.concatenate([[before], column])
            for before, column in zip(last, (one.sink_offsets, one.source_offsets, one.sequences), strict=True)
        )
        if not (np.diff(sink) > 0).all() or not rises(source, sequence).all():
            raise UndecidedError("outputs that are not in the order of their origins")
        self.last_row[place] = (int(sink[-1]), int(source[-1]), int(sequence[-1]))

    def check_sequences(self, maps: list[ProvenanceMap], start: int) -> None:
        """Check that no origin has two outputs of one sequence, in whatever sink partitions."""
        outputs = [one for one in maps if len(one.sink_offsets) and not one.skips]
        if not outputs:
            return
        offsets = np.concatenate([one.source_offsets for one in outputs]) - start
        sequences = np.concatenate([one.sequences for one in outputs])
        width = int(sequences.max()) + 1
        if sequences.min() < 0 or int(offsets.max() + 1) * width >= 1 << 63:
            raise UndecidedError("sequences that do not fit into one integer")
        keys = np.sort(offsets * width + sequences)
        if not (np.diff(keys) > 0).all():
            raise UndecidedError("an origin with two outputs of one sequence")

    def add_set_aside(self, partition: int, maps: list[ProvenanceMap]) -> None:
        """Note the origins that have nothing but dead letters."""
        dead_letters = self.scope.topics[-1]
        dead = [one.source_offsets for one in maps if one.topic == dead_letters]
        if dead:
            others = [one.source_offsets for one in maps if one.topic != dead_letters] or [np.zeros(0, np.int64)]
            alone = np.setdiff1d(np.concatenate(dead), np.concatenate(others))
            self.claims.set_aside += [(partition, offset) for offset in alone.tolist()]
        if len(self.claims.set_aside) > MOST_SET_ASIDE:
            raise UndecidedError("too many origins were set aside to be sent to tasks")


def transaction_of(one: ProvenanceMap) -> tuple[int, int]:
    return one.source_partition, one.start


def rises(source: Integers, sequence: Integers) -> Flags:
    """Whether each row but the first has a higher origin than the row before it."""
    step = np.diff(source)
    higher: Flags = (step > 0) | ((step == 0) & (np.diff(sequence) > 0))
    return higher
