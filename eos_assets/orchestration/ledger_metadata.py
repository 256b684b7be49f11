"""The metadata of a materialized partition: figures and links, all from the ledger."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.log.ledger import LedgerEntry
from eos_assets.orchestration.keys import table_key
from eos_assets.run.report import RunReport

NOTHING_NEW = "nothing new"
#: A table shows at most this number of transactions; all are in audit_transactions.
ROWS = 100


def run_metadata(pipeline: Pipeline, report: RunReport, partition: int, topic: str) -> dict[str, Any]:
    """Describe what a Dagster run wrote from one source partition to one topic.

    A run without new records has zero figures, and names the run that committed the last ones, and who holds
    back more.
    """
    entries = [entry for entry in report.entries if entry.partition == partition]
    metadata = {
        **ledger_metadata(pipeline, topic, partition, entries),
        "attempts": report.attempts,
        "run": dg.MetadataValue.dagster_run(report.run),
    }
    if "records_in" in metadata:
        metadata["records_per_second"] = round(metadata["records_in"] / max(0.001, report.seconds), 1)
    if entries:
        metadata["ledger"] = f"{pipeline.names().ledger}/{partition}, offset {report.ledger_offsets[partition]}"
    if partition in report.held_back:
        metadata["held_back"] = report.held_back[partition]
    if last := report.last_entries.get(partition):
        metadata |= commit_metadata(last)
    return metadata


def ledger_metadata(pipeline: Pipeline, topic: str, partition: int, entries: Sequence[LedgerEntry]) -> dict[str, Any]:
    """Describe what these transactions of one source partition wrote to one topic."""
    names = pipeline.names()
    metadata: dict[str, Any] = {
        "range": f"[{entries[0].start}, {entries[-1].next})" if entries else NOTHING_NEW,
        "transactions": len(entries),
        "transactional_id": names.transactional_id(partition),
        "ledger_table": dg.MetadataValue.asset(table_key(pipeline, "audit_transactions")),
        **(commit_metadata(entries[-1]) if entries else {}),
    }
    if topic in (names.ledger, names.provenance):
        return metadata
    metadata |= {
        "records_in": sum(entry.records_in for entry in entries),
        "records_out": sum(written.count for entry in entries for written in entry.sinks if written.topic == topic),
        "skipped": sum(entry.skipped for entry in entries),
        "repeats": sum(entry.repeats for entry in entries),
        "dead": sum(entry.dead for entry in entries),
    }
    if topic != names.dead_letters:
        metadata["bytes"] = sum(entry.bytes_out for entry in entries)
    if entries:
        metadata["offsets"] = offsets_table(entries, topic)
    return metadata


def commit_metadata(last: LedgerEntry) -> dict[str, Any]:
    """The position of a source partition, and the run and the time of its commit."""
    return {
        "position": last.next,
        "committed_by": last.run,
        "committed_at": dg.MetadataValue.timestamp(last.ended_ms / 1000),
    }


def offsets_table(entries: Sequence[LedgerEntry], topic: str) -> dg.TableMetadataValue | str:
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
