"""Compare the audit tables with the ledger."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eos_assets.audit.marks import Reached
from eos_assets.audit.table_contents import TableContents, newer, read_contents
from eos_assets.audit.tables import AuditTables
from eos_assets.declare.check import Finding
from eos_assets.kafka.offsets import OffsetRange, bounds
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry
from eos_assets.verify.invariants import SHOWN, Violations, transaction
from eos_assets.verify.window.reader import first_complete_map

NAME = "audit_matches_ledger"


@dataclass(frozen=True)
class Comparison:
    """The result, and how far it reaches: the next comparison may begin there if this one holds."""

    finding: Finding
    reached: Reached = field(default_factory=dict)
    #: One row per partition: what was compared.
    partitions: list[dict[str, int]] = field(default_factory=list)


def compare_with_ledger(tables: AuditTables, after: Mapping[int, int] | None = None) -> Comparison:
    """Compare the tables with the ledger from where the last comparison ended, else from its start.

    Every ledger entry is one row with the same figures and has as many deliveries as it claims. Every delivered dead
    letter is in its table.
    """
    if not tables.columns("audit_transactions"):
        return Comparison(Finding(NAME, True, "not evaluated: the tables were not written yet", evaluated=False))
    contents = read_contents(tables, dict(after or {}))
    return TableComparison(tables, contents, dict(after or {})).compare()


class TableComparison:
    """One comparison. What the last update did not load, or only in part, is pending: the next update adds it."""

    def __init__(self, tables: AuditTables, contents: TableContents, after: Reached) -> None:
        self.tables = tables
        self.contents = contents
        self.after = after
        self.violations = Violations()
        self.pending = self.expired = 0

    def compare(self) -> Comparison:
        context = self.tables.context
        reached = dict(self.after)
        partitions: list[dict[str, int]] = []
        unmatched = dict(self.contents.transactions)  # those of the tables for which no entry was found yet
        maps = bounds(context.kafka, context.names.provenance)
        for partition, bound in bounds(context.kafka, context.names.ledger).items():
            start = self.after.get(partition, bound.start - 1) + 1
            first_map = self.first_map(partition, maps[partition].start)
            checked = 0
            for offset, entry in self.read_entries(OffsetRange(partition, start, bound.stable)):
                row = unmatched.pop((partition, entry.start), None)
                if self.compare_entry(offset, entry, row, first_map):
                    checked, reached[partition] = checked + 1, offset
            partitions.append({"partition": partition, "from_ledger_offset": start, "transactions": checked})
        for (partition, start), (end, *_) in unmatched.items():
            self.violations.add(
                f"the table has a transaction [{start}, {end}) of partition {partition} that the ledger lacks"
            )
        self.compare_dead_letters()
        return Comparison(self.finding(sum(row["transactions"] for row in partitions)), reached, partitions)

    def read_entries(self, chosen: OffsetRange) -> Iterator[tuple[int, LedgerEntry]]:
        """The entries of a range of the ledger, with their offsets."""
        context = self.tables.context
        messages = read_partition(context.kafka, context.names.ledger, chosen.partition, chosen.start, chosen.end)
        for message in messages:
            entry = ledger.read(message)
            if isinstance(entry, LedgerEntry):
                yield message.offset() or 0, entry

    def first_map(self, partition: int, map_start: int) -> int:
        """The start of the first transaction whose maps are all retained."""
        context = self.tables.context
        return first_complete_map(context.kafka, context.names.provenance, partition) if map_start else 0

    def compare_entry(self, offset: int, entry: LedgerEntry, row: tuple[int, ...] | None, first_map: int) -> bool:
        """Compare one entry with its rows, unless it is pending. Returns whether it was compared."""
        delivered = self.contents.delivered.get((entry.partition, entry.start), 0)
        expected = count_outputs(entry)
        is_last = entry.start > self.contents.last_delivered.get(entry.partition, -1)
        without_deliveries = expected and not delivered and is_last and entry.start >= first_map
        if offset > self.contents.loaded.get(entry.partition, -1) or without_deliveries:
            self.pending += 1
            return False
        if not delivered and entry.start < first_map:
            self.expired, delivered = self.expired + 1, expected  # the tables were rebuilt after its maps were deleted
        in_ledger = (entry.next, entry.records_in, entry.records_out, entry.skipped, entry.dead, 1)
        if row != in_ledger:
            self.violations.add(
                f"{transaction(entry)}: (next, in, out, skipped, dead, rows) is {in_ledger} in the ledger and {row} in "
                "the table"
            )
        if delivered != expected:
            self.violations.add(f"{transaction(entry)}: {expected} outputs, {delivered} rows in audit_deliveries")
        return True

    def compare_dead_letters(self) -> None:
        """Every delivered dead letter that is still in its topic is a row of audit_dead_letters."""
        topic = self.tables.context.names.dead_letters
        deleted = {p: bound.start - 1 for p, bound in bounds(self.tables.context.kafka, topic).items()}
        delivered = (
            self.tables.read("audit_deliveries")
            .where(newer(self.contents.before, "source_partition", "transaction_start"))
            .where(newer(deleted, "sink_partition", "sink_offset"))
        )
        place = ["sink_partition", "sink_offset"]
        dead_letters = delivered.where(delivered["topic"] == topic).select(*place)
        missing = dead_letters.join(self.tables.read("audit_dead_letters"), place, "left_anti")
        for row in missing.limit(SHOWN).collect():
            self.violations.add(f"{topic}/{row.sink_partition} offset {row.sink_offset} is not in audit_dead_letters")

    def finding(self, checked: int) -> Finding:
        note = f", {self.pending} more not loaded yet" if self.pending else ""
        note += f", deliveries of {self.expired} no longer provable" if self.expired else ""
        since = " since the last comparison" if self.after else ""
        holds = f"{checked:,} transactions{since}, rows and deliveries equal{note}"
        return self.violations.finding(NAME, holds, "differences")


def count_outputs(entry: LedgerEntry) -> int:
    return sum(written.count for written in entry.sinks)
