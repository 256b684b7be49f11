"""What a materialization tells about one partition: figures and links, all from the ledger."""

from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.log.ledger import LedgerEntry
from eos_assets.orchestration.keys import table_key
from eos_assets.run.report import RunReport

NOTHING_NEW = "nothing new"
#: So many transactions are shown in a table; all are in audit_transactions.
ROWS = 100


def ledger_metadata(
    pipeline: Pipeline, report: RunReport, partition: int, topic: str, dagster_run: str
) -> dict[str, Any]:
    """Nothing new to do is a success that says so: the figures are zero, and the range tells why."""
    names = pipeline.names()
    entries = [entry for entry in report.entries if entry.partition == partition]
    parts = [part for entry in entries for part in entry.sinks if part.topic == topic]
    records_in = sum(entry.records_in for entry in entries)
    told: dict[str, Any] = {
        "range": f"[{entries[0].start}, {entries[-1].next})" if entries else NOTHING_NEW,
        "transactions": len(entries),
        "attempts": report.attempts,
        "run": dg.MetadataValue.dagster_run(dagster_run),
        "eos_run": report.run,
        "transactional_id": names.transactional_id(partition),
        "ledger_table": dg.MetadataValue.asset(table_key(pipeline, "audit_transactions")),
    }
    if entries:
        told["ledger"] = f"{names.ledger}/{partition}, offset {report.ledger_offsets[partition]}"
    if topic in (names.ledger, names.provenance):
        return told
    figures: dict[str, Any] = {
        "records_in": records_in,
        "records_out": sum(part.count for part in parts),
        "skipped": sum(entry.skipped for entry in entries),
        "repeats": sum(entry.repeats for entry in entries),
        "dead": sum(entry.dead for entry in entries),
        **({} if topic == names.dead_letters else {"bytes": sum(entry.bytes_out for entry in entries)}),
        "records_per_second": round(records_in / max(0.001, report.seconds), 1),
        **({"offsets": offsets(entries, topic)} if entries else {}),
    }
    return {**told, **figures}


def offsets(entries: list[LedgerEntry], topic: str) -> dg.TableMetadataValue | str:
    """Where the outputs lie: first and last offset in each partition of the topic, a row per transaction."""
    rows = [
        dg.TableRecord(
            {
                "transaction": f"[{entry.start}, {entry.next})",
                "partition": part.partition,
                "first": part.first,
                "last": part.last,
                "records": part.count,
            }
        )
        for entry in entries
        for part in entry.sinks
        if part.topic == topic
    ]
    return dg.MetadataValue.table(rows[:ROWS]) if rows else "none"
