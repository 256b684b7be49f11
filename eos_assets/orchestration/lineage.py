"""The columns of topics and audit tables, and the column lineage between them."""

from collections.abc import Iterable
from typing import get_type_hints

import dagster as dg
import pyarrow as pa

from eos_assets.audit.schemas import PARTITIONS, TIMESTAMP, arrow_type, field_types
from eos_assets.audit.tables import SCHEMAS
from eos_assets.declare.pipeline import Pipeline
from eos_assets.log import provenance
from eos_assets.log.ledger import LedgerEntry
from eos_assets.log.provenance import ProvenanceMap
from eos_assets.orchestration.keys import dead_letters_key, sink_keys, source_keys

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: A Kafka record.
RECORD = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(HEADER)),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
    ]
)
#: The fields of a ledger entry, and its offset.
LEDGER = pa.schema(
    [
        *field_types(LedgerEntry).items(),
        ("files", pa.map_(pa.string(), pa.string())),
        ("offset", pa.int64()),
    ]
)
#: The rows of a provenance map, and the metadata that all of them share.
PROVENANCE = pa.schema(
    [
        *provenance.COLUMNS,
        *((name, arrow_type(name, kind)) for name, kind in get_type_hints(ProvenanceMap).items() if kind in (int, str)),
    ]
)
#: Table → its columns.
TABLES = {**SCHEMAS, "audit_partitions": PARTITIONS}

#: Columns whose name alone does not explain them.
DESCRIPTIONS = {
    "began_at": "When the transaction began.",
    "bytes_out": "The bytes of the keys and values that were written.",
    "code_version": "A digest of the transform's code.",
    "dead": "Records that were rejected and written to the dead letters.",
    "digest": "xxhash64 of key, value and headers.",
    "dropped": "Records that a filter left out.",
    "ended_at": "When the transaction ended.",
    "lag": "Source offsets that are not committed yet.",
    "headers": "The record's headers.",
    "isolated": "1 if the transaction holds one record on which the transform raised.",
    "key": "The record's key, which determines its partition.",
    "last_stable": "The last stable offset: the first open transaction begins there.",
    "ledger_id": "The topic id of the ledger; a new ledger has a new one.",
    "ledger_offset": "The offset of the entry in the ledger topic.",
    "log_start": "The first offset that the topic still holds.",
    "next": "The first source offset after the transaction.",
    "offset": "The offset of the record in its partition.",
    "origin": "Topic, partition and offset of the rejected record.",
    "partition": "The Kafka partition.",
    "position": "The first source offset that is not committed yet.",
    "proven": "The position up to which every check held.",
    "reason": "Why the record was rejected.",
    "repeats": "Skipped records whose business key was seen before.",
    "run": "The id of the run that wrote it.",
    "run_attempt": "The number of the Spark job within the run.",
    "sequence": "The number of this output among those of its source record.",
    "sinks": "Per sink partition: count, first and last offset, digest.",
    "skipped": "Records that the transform skipped explicitly.",
    "start": "The first source offset of the transaction.",
    "state": "Per changelog: count, first and last offset, digest.",
    "task_attempt": "The number of the attempt at the Spark task.",
    "timestamp": "When the record was written.",
    "transaction_start": "The first source offset of the transaction.",
    "value": "The record's value.",
    "written_at": "The timestamp of the record in Kafka.",
}

#: Table → column → the topics, by their role, and their columns. Columns that are missing here are copied from the
#: ledger under the same name.
COLUMN_SOURCES: dict[str, dict[str, list[tuple[str, list[str]]]]] = {
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


def column_schema(columns: pa.Schema) -> dg.TableSchema:
    """The columns with their types, as Spark names them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return dg.TableSchema(
        columns=[
            dg.TableColumn(field.name, field.dataType.simpleString(), DESCRIPTIONS.get(field.name))
            for field in from_arrow_schema(columns).fields
        ]
    )


def topic_keys(pipeline: Pipeline, pipelines: Iterable[Pipeline]) -> dict[str, list[dg.AssetKey]]:
    """Role → the topics that the audit tables are made from."""
    names = pipeline.names()
    return {
        "source": source_keys(pipeline, pipelines),
        "sinks": sink_keys(pipeline),
        "dead_letters": [dead_letters_key(pipeline)],
        "ledger": [dg.AssetKey(names.ledger)],
        "provenance": [dg.AssetKey(names.provenance)],
    }


def upstream_keys(table: str, topics: dict[str, list[dg.AssetKey]]) -> list[dg.AssetKey]:
    """The topics that an audit table is made from. Each depends on the ledger, which decides which rows exist."""
    roles = {role for sources in COLUMN_SOURCES[table].values() for role, _ in sources} | {"ledger"}
    return [key for role, keys in topics.items() if role in roles for key in keys]


def column_lineage(table: str, topics: dict[str, list[dg.AssetKey]]) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(asset_key=key, column_name=name)
                for role, names in column_sources(table, column)
                for key in topics[role]
                for name in names
            ]
            for column in TABLES[table].names
        }
    )


def column_sources(table: str, column: str) -> list[tuple[str, list[str]]]:
    """The topics and columns that a column of an audit table is made from."""
    from_ledger = [("ledger", [column])] if column in LEDGER.names else []
    return COLUMN_SOURCES[table].get(column, from_ledger)
