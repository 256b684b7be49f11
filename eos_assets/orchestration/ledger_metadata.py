"""The metadata of a materialized partition: figures and links, all from the ledger."""

from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.log.ledger import LedgerEntry
from eos_assets.orchestration.keys import table_key
from eos_assets.run.report import RunReport

NOTHING_NEW = "nothing new"
#: A table shows at most this number of transactions; all are in audit_transactions.
ROWS = 100


def ledger_metadata(
    pipeline: Pipeline, report: RunReport, partition: int, topic: str, dagster_run: str
) -> dict[str, Any]:
    """Describe what a run wrote from one source partition to one topic. A run without new records has zero figures."""
    names = pipeline.names()
    entries = [entry for entry in report.entries if entry.partition == partition]
    metadata: dict[str, Any] = {
        "range": f"[{entries[0].start}, {entries[-1].next})" if entries else NOTHING_NEW,
        "transactions": len(entries),
        "attempts": report.attempts,
        "run": dg.MetadataValue.dagster_run(dagster_run),
        "eos_run": report.run,
        "transactional_id": names.transactional_id(partition),
        "ledger_table": dg.MetadataValue.asset(table_key(pipeline, "audit_transactions")),
    }
    if entries:
        metadata["ledger"] = f"{names.ledger}/{partition}, offset {report.ledger_offsets[partition]}"
    if topic in (names.ledger, names.provenance):
        return metadata
    records_in = sum(entry.records_in for entry in entries)
    metadata |= {
        "records_in": records_in,
        "records_out": sum(written.count for entry in entries for written in entry.sinks if written.topic == topic),
        "skipped": sum(entry.skipped for entry in entries),
        "repeats": sum(entry.repeats for entry in entries),
        "dead": sum(entry.dead for entry in entries),
        "records_per_second": round(records_in / max(0.001, report.seconds), 1),
    }
    if topic != names.dead_letters:
        metadata["bytes"] = sum(entry.bytes_out for entry in entries)
    if entries:
        metadata["offsets"] = offsets_table(entries, topic)
    return metadata


def offsets_table(entries: list[LedgerEntry], topic: str) -> dg.TableMetadataValue | str:
    """The first and last offset in each partition of the topic, a row per transaction."""
    rows = [
        dg.TableRecord(
            {
                "transaction": f"[{entry.start}, {entry.next})",
                "partition": written.partition,
                "first": written.first,
                "last": written.last,
                "records": written.count,
            }
        )
        for entry in entries
        for written in entry.sinks
        if written.topic == topic
    ]
    return dg.MetadataValue.table(rows[:ROWS]) if rows else "none"
