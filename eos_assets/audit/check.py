"""Whether the audit tables say what the ledger says."""

from eos_assets.audit.tables import AuditTables
from eos_assets.exactly_once.job import OffsetRange
from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.kafka.offsets import bounds
from eos_assets.proof.invariants import Finding, Violations
from eos_assets.proof.window import first_whole

FIGURES = ("next", "records_in", "records_out", "skipped", "dead")


def audit_matches_ledger(tables: AuditTables) -> Finding:
    """Every ledger entry is one row with the same figures, and has as many deliveries as it claims."""
    from pyspark.sql import functions as f

    name = "audit_matches_ledger"
    if not tables.exists("audit_transactions"):
        return Finding(name, True, "not evaluated: the tables were not written yet", evaluated=False)
    wrong = Violations()
    rows = {
        (row.partition, row.start): (row.next, row.records_in, row.records_out, row.skipped, row.dead, row.times)
        for row in tables.read("audit_transactions")
        .groupBy("partition", "start")
        .agg(*(f.max(figure).alias(figure) for figure in FIGURES), f.count("*").alias("times"))
        .collect()
    }
    delivered = {
        (row.source_partition, row.transaction_start): row.n
        for row in tables.read("audit_deliveries")
        .groupBy("source_partition", "transaction_start")
        .agg(f.count("*").alias("n"))
        .collect()
    }
    reached = tables.reached("audit_transactions", "partition", "ledger_offset")
    checked = pending = faded = 0
    maps = bounds(tables.connection, tables.names.provenance)
    for partition, there in bounds(tables.connection, tables.names.ledger).items():
        retained = first_whole(tables.connection, tables.names.provenance, partition) if maps[partition].start else 0
        for offset, entry in tables.entries(OffsetRange(partition, there.start, there.stable)):
            if offset > reached.get(partition, -1):
                pending += 1  # committed since the tables were written: the next update adds it
                continue
            checked += 1
            found = delivered.get((partition, entry.start), 0)
            if not found and entry.start < retained:
                faded, found = faded + 1, outputs(entry)  # the tables were made anew, when their maps were gone
            compare(entry, rows.pop((partition, entry.start), None), found, wrong)
    for (partition, start), row in rows.items():
        wrong.add(f"the table has a transaction [{start}, {row[0]}) of partition {partition} that the ledger lacks")
    note = f", {pending} more not loaded yet" if pending else ""
    note += f", deliveries of {faded} no longer provable" if faded else ""
    told = f"{checked:,} transactions, rows and deliveries equal{note}"
    return wrong.finding(name, told, "differences")


def compare(
    entry: LedgerEntry,
    row: tuple[int, ...] | None,
    found: int,
    wrong: Violations,
) -> None:
    name = f"transaction [{entry.start}, {entry.next}) of partition {entry.partition}"
    here = (entry.next, entry.records_in, entry.records_out, entry.skipped, entry.dead, 1)
    if row != here:
        wrong.add(f"{name}: the ledger says (next, in, out, skipped, dead, rows) = {here}, the table {row}")
    if found != outputs(entry):
        wrong.add(f"{name}: {outputs(entry)} outputs, {found} rows in audit_deliveries")


def outputs(entry: LedgerEntry) -> int:
    return sum(part.count for part in entry.sinks)
