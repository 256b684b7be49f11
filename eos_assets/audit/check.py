"""Whether the audit tables say what the ledger says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eos_assets.audit.tables import AuditTables
from eos_assets.declare.check import Finding
from eos_assets.kafka.offsets import bounds
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.verify.invariants import SHOWN, Violations
from eos_assets.verify.window import first_whole

if TYPE_CHECKING:
    from pyspark.sql import Column

NAME = "audit_matches_ledger"
FIGURES = ("next", "records_in", "records_out", "skipped", "dead")
#: Ledger partition → an offset in it.
Marks = dict[int, int]


@dataclass
class Comparison:
    """What was found, and up to where: the next comparison may begin there if this one holds."""

    finding: Finding
    reached: Marks = field(default_factory=dict)
    #: One row per partition: what was compared.
    partitions: list[dict[str, int]] = field(default_factory=list)


def audit_matches_ledger(tables: AuditTables) -> Finding:
    """All that the tables hold, compared with the ledger."""
    return compare_with_ledger(tables).finding


def compare_with_ledger(tables: AuditTables, after: Mapping[int, int] | None = None) -> Comparison:
    """Every ledger entry behind the marks is one row with the same figures, has as many deliveries as it claims, and
    every delivered dead letter is in its table."""
    if not tables.columns("audit_transactions"):
        return Comparison(Finding(NAME, True, "not evaluated: the tables were not written yet", evaluated=False))
    return Comparing(tables, dict(after or {})).compare()


class Comparing:
    """One comparison. What was committed, or loaded only in part, since the tables were written is pending: the next
    update adds it."""

    def __init__(self, tables: AuditTables, after: Marks) -> None:
        self.tables = tables
        self.after = after
        self.wrong = Violations()
        self.pending = self.faded = 0

    def compare(self) -> Comparison:
        rows = self.rows()
        starts = {p: min(start for partition, start in rows if partition == p) for p, _ in rows}
        delivered = self.delivered(starts)
        last = {p: max(start for partition, start in delivered if partition == p) for p, _ in delivered}
        counted: list[dict[str, int]] = []
        reached = dict(self.after)
        maps = bounds(self.tables.connection, self.tables.names.provenance)
        for partition, there in bounds(self.tables.connection, self.tables.names.ledger).items():
            begin = self.after.get(partition, there.start - 1) + 1
            checked = 0
            whole = self.first_whole(partition, maps[partition].start)
            for offset, entry in self.tables.entries(OffsetRange(partition, begin, there.stable)):
                row, found = rows.get((partition, entry.start)), delivered.get((partition, entry.start), 0)
                late = outputs(entry) and not found and entry.start > last.get(partition, -1) and entry.start >= whole
                if offset > self.loaded.get(partition, -1) or late:
                    self.pending += 1
                    rows.pop((partition, entry.start), None)
                    continue
                if not found and entry.start < whole:
                    self.faded, found = self.faded + 1, outputs(entry)  # made anew, when their maps were gone
                self.compare_entry(entry, row, found)
                rows.pop((partition, entry.start), None)
                checked, reached[partition] = checked + 1, offset
            counted.append({"partition": partition, "from_ledger_offset": begin, "transactions": checked})
        for (partition, start), row in rows.items():
            self.wrong.add(
                f"the table has a transaction [{start}, {row[0]}) of partition {partition} that the ledger lacks"
            )
        self.compare_dead_letters(starts)
        return Comparison(self.finding(sum(row["transactions"] for row in counted)), reached, counted)

    def rows(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Partition and start → the figures of audit_transactions, and how many rows say so."""
        from pyspark.sql import functions as f

        known = self.tables.read("audit_transactions").where(newer(self.after, "partition", "ledger_offset"))
        figures = [f.max(figure).alias(figure) for figure in FIGURES]
        grouped = known.groupBy("partition", "start").agg(
            *figures, f.count("*").alias("times"), f.max("ledger_offset").alias("ledger_offset")
        )
        found = grouped.collect()
        self.loaded = dict(self.after)
        for row in found:
            self.loaded[row.partition] = max(self.loaded.get(row.partition, -1), row.ledger_offset)
        return {(row.partition, row.start): (*(row[figure] for figure in FIGURES), row.times) for row in found}

    def delivered(self, starts: Marks) -> dict[tuple[int, int], int]:
        """Partition and start of a transaction → its rows in audit_deliveries."""
        from pyspark.sql import functions as f

        before = {p: start - 1 for p, start in starts.items()}
        known = self.tables.read("audit_deliveries").where(newer(before, "source_partition", "transaction_start"))
        counted = known.groupBy("source_partition", "transaction_start").agg(f.count("*").alias("n"))
        return {(row.source_partition, row.transaction_start): row.n for row in counted.collect()}

    def first_whole(self, partition: int, map_start: int) -> int:
        names = self.tables.names
        return first_whole(self.tables.connection, names.provenance, partition) if map_start else 0

    def compare_entry(self, entry: LedgerEntry, row: tuple[int, ...] | None, found: int) -> None:
        name = f"transaction [{entry.start}, {entry.next}) of partition {entry.partition}"
        here = (entry.next, entry.records_in, entry.records_out, entry.skipped, entry.dead, 1)
        if row != here:
            self.wrong.add(f"{name}: the ledger says (next, in, out, skipped, dead, rows) = {here}, the table {row}")
        if found != outputs(entry):
            self.wrong.add(f"{name}: {outputs(entry)} outputs, {found} rows in audit_deliveries")

    def compare_dead_letters(self, starts: Marks) -> None:
        """Every delivered dead letter that is still in its topic is a row of audit_dead_letters."""
        topic = self.tables.names.dead_letters
        before = {p: start - 1 for p, start in starts.items()}
        gone = {p: there.start - 1 for p, there in bounds(self.tables.connection, topic).items()}
        letters = (
            self.tables.read("audit_deliveries")
            .where(newer(before, "source_partition", "transaction_start"))
            .where(newer(gone, "sink_partition", "sink_offset"))
        )
        letters = letters.where(letters["topic"] == topic).select("sink_partition", "sink_offset")
        missing = letters.join(self.tables.read("audit_dead_letters"), ["sink_partition", "sink_offset"], "left_anti")
        for row in missing.limit(SHOWN).collect():
            self.wrong.add(f"{topic}/{row.sink_partition} offset {row.sink_offset} is not in audit_dead_letters")

    def finding(self, checked: int) -> Finding:
        note = f", {self.pending} more not loaded yet" if self.pending else ""
        note += f", deliveries of {self.faded} no longer provable" if self.faded else ""
        since = " since the last comparison" if self.after else ""
        told = f"{checked:,} transactions{since}, rows and deliveries equal{note}"
        return self.wrong.finding(NAME, told, "differences")


def outputs(entry: LedgerEntry) -> int:
    return sum(part.count for part in entry.sinks)


def newer(reached: Mapping[int, int], partition: str, offset: str) -> "Column":
    """The rows past what was reached in their partition."""
    from pyspark.sql import functions as f

    condition = f.lit(True)
    for p, last in reached.items():
        condition &= (f.col(partition) != p) | (f.col(offset) > last)
    return condition
