"""The columns of topics and audit tables, and which column of an audit table comes from which one of a topic."""

from collections.abc import Iterable
from dataclasses import fields

import dagster as dg

from eos_assets.defs.keys import dead_letters_key, sink_keys, source_keys
from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.exactly_once.pipeline import Pipeline

#: A record as Kafka keeps it.
RECORD = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
}
#: The fields of a ledger entry, a JSON object, and the offset at which it stands.
LEDGER = {**{field.name: "json" for field in fields(LedgerEntry)}, "offset": "long"}
#: The rows of a provenance map, and what its schema says about all of them.
PROVENANCE = {
    "sink_offset": "long",
    "source_offset": "long",
    "sequence": "int",
    "source_partition": "int",
    "start": "long",
    "topic": "string",
    "partition": "int",
}

#: Column of an audit table → role of a topic and its columns. A column not named here has the ledger's name for it.
ORIGINS: dict[str, dict[str, list[tuple[str, list[str]]]]] = {
    "audit_transactions": {
        "ledger_offset": [("ledger", ["offset"])],
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
        "digest": [("sinks", ["key", "value"]), ("dead_letters", ["key", "value"])],
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
    return dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])


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
