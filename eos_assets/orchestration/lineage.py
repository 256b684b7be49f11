"""The columns of topics and audit tables, and which column of an audit table comes from which one of a topic."""

from collections.abc import Iterable
from dataclasses import fields

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.log.ledger import LedgerEntry
from eos_assets.orchestration.keys import dead_letters_key, sink_keys, source_keys

#: A record as Kafka keeps it.
RECORD = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}
#: The fields of a ledger entry, a JSON object, and the offset at which it stands.
LEDGER = {**{field.name: "json" for field in fields(LedgerEntry)}, "offset": "bigint"}
#: The rows of a provenance map, and what its schema says about all of them.
PROVENANCE = {
    "sink_offset": "bigint",
    "source_offset": "bigint",
    "sequence": "int",
    "source_partition": "int",
    "start": "bigint",
    "topic": "string",
    "partition": "int",
}

#: What a column says, where its name alone does not.
DESCRIPTIONS = {
    "began_at": "When the transaction began.",
    "bytes_out": "Keys and values written, in bytes.",
    "code_version": "A digest of the transform's text.",
    "dead": "Records rejected into the dead letters.",
    "digest": "xxhash64 of key, value and headers.",
    "dropped": "Records that a filter left out.",
    "ended_at": "When the transaction ended.",
    "lag": "Offsets not brought over yet.",
    "headers": "The record's headers.",
    "isolated": "1 where the transaction holds one record that the function raised on.",
    "key": "The record's key; it decides the partition.",
    "last_stable": "Behind this offset nothing is decided yet.",
    "ledger_id": "The id of the ledger topic in which the entry stands; a new ledger has a new one.",
    "ledger_offset": "Where the entry stands in the ledger topic.",
    "log_start": "The first offset that is still there.",
    "next": "The first source offset behind the transaction.",
    "offset": "Where the record stands in its partition.",
    "origin": "Topic, partition and offset of the rejected record.",
    "partition": "The Kafka partition.",
    "position": "The first source offset that is not brought over yet.",
    "proven": "The position up to which every check held.",
    "reason": "Why the record was rejected.",
    "repeats": "Of the skipped: records whose business key was seen before.",
    "run": "The run that wrote it, as eos names it.",
    "run_attempt": "Which try of the run it was.",
    "sequence": "The number of this output among those of its source record.",
    "sinks": "Per sink partition: count, first and last offset, digest.",
    "skipped": "Records left out on purpose.",
    "start": "The first source offset of the transaction.",
    "state": "Per changelog: count, first and last offset, digest.",
    "task_attempt": "Which try of the Spark task it was.",
    "timestamp": "When it was written.",
    "transaction_start": "The first source offset of the transaction.",
    "value": "The record's value.",
    "written_at": "The timestamp of the record in Kafka.",
}

#: Column of an audit table → role of a topic and its columns. A column not named here has the ledger's name for it.
ORIGINS: dict[str, dict[str, list[tuple[str, list[str]]]]] = {
    "audit_transactions": {
        "ledger_offset": [("ledger", ["offset"])],
        "ledger_id": [("ledger", ["offset"])],
        "began_at": [("ledger", ["began_ms"])],
        "ended_at": [("ledger", ["ended_ms"])],
    },
    "audit_deliveries": {
        "topic": [("provenance", ["topic"])],
        "sink_partition": [("provenance", ["partition"])],
        "sink_offset": [("provenance", ["sink_offset"])],
        "source_partition": [("provenance", ["source_partition"])],
        "source_offset": [("provenance", ["source_offset"])],
        "sequence": [("provenance", ["sequence"])],
        "transaction_start": [("provenance", ["start"])],
        "digest": [("sinks", ["key", "value", "headers"]), ("dead_letters", ["key", "value", "headers"])],
        "written_at": [("sinks", ["timestamp"]), ("dead_letters", ["timestamp"])],
    },
    "audit_dead_letters": {
        "sink_partition": [("dead_letters", ["partition"])],
        "sink_offset": [("dead_letters", ["offset"])],
        "key": [("dead_letters", ["key"])],
        "value": [("dead_letters", ["value"])],
        "reason": [("dead_letters", ["headers"])],
        "origin": [("dead_letters", ["headers"])],
        "written_at": [("dead_letters", ["timestamp"])],
    },
    "audit_partitions": {
        "partition": [("source", ["partition"])],
        "log_start": [("source", ["offset"])],
        "last_stable": [("source", ["offset"])],
        "position": [("ledger", ["next"])],
        "lag": [("source", ["offset"]), ("ledger", ["next"])],
        "proven": [("ledger", ["next"])],
    },
}


def schema(columns: dict[str, str]) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[dg.TableColumn(name, kind, DESCRIPTIONS.get(name)) for name, kind in columns.items()]
    )


def topics_of(pipeline: Pipeline, pipelines: Iterable[Pipeline]) -> dict[str, list[dg.AssetKey]]:
    """The topics that the audit tables are made of, by their role."""
    names = pipeline.names()
    return {
        "source": source_keys(pipeline, pipelines),
        "sinks": sink_keys(pipeline),
        "dead_letters": [dead_letters_key(pipeline)],
        "ledger": [dg.AssetKey(names.ledger)],
        "provenance": [dg.AssetKey(names.provenance)],
    }


def upstream_of(table: str, topics: dict[str, list[dg.AssetKey]]) -> list[dg.AssetKey]:
    """What one audit table is made of. Rows exist because the ledger has them, so each depends on it."""
    roles = {role for origins in ORIGINS[table].values() for role, _ in origins} | {"ledger"}
    return [key for role, keys in topics.items() if role in roles for key in keys]


def lineage(table: str, columns: Iterable[str], topics: dict[str, list[dg.AssetKey]]) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(asset_key=key, column_name=name)
                for role, names in origins_of(table, column)
                for key in topics[role]
                for name in names
            ]
            for column in columns
        }
    )


def origins_of(table: str, column: str) -> list[tuple[str, list[str]]]:
    named = ORIGINS[table].get(column)
    return named if named is not None else [("ledger", [column])] if column in LEDGER else []
