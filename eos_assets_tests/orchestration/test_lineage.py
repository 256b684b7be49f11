"""The columns of topics and tables, derived from the schemas that write and read them."""

import pytest

from eos_assets.orchestration.lineage import LEDGER, PROVENANCE, RECORD, TABLES, column_schema, column_sources
from eos_assets.transform.source import SCHEMA


def types(name: str) -> dict[str, str]:
    schemas = {"record": RECORD, "ledger": LEDGER, "provenance": PROVENANCE}
    return {column.name: column.type for column in column_schema(schemas[name]).columns}


def test_a_record_has_the_columns_that_spark_reads() -> None:
    read = dict(column.replace("`", "").split(" ") for column in SCHEMA.split(", "))
    read = {name: kind.replace("long", "bigint") for name, kind in read.items()}
    assert types("record").items() <= read.items()


def test_a_ledger_entry_has_the_types_of_its_audit_table() -> None:
    columns = types("ledger")
    assert (columns["records_in"], columns["partition"], columns["files"]) == ("bigint", "int", "map<string,string>")
    assert columns["offset"] == "bigint"


def test_a_provenance_map_has_its_columns_and_its_metadata() -> None:
    assert types("provenance") == {
        "sink_offset": "bigint",
        "source_offset": "bigint",
        "sequence": "int",
        "source_partition": "bigint",
        "start": "bigint",
        "topic": "string",
        "partition": "int",
    }


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_an_audit_table_has_a_source(table: str) -> None:
    roles = {"source": RECORD, "sinks": RECORD, "dead_letters": RECORD, "ledger": LEDGER, "provenance": PROVENANCE}
    for column in TABLES[table].names:
        sources = column_sources(table, column)
        assert sources, column
        assert all(set(names) <= set(roles[role].names) for role, names in sources)
