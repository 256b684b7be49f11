"""`eos audit`: update, rebuild or query the audit tables."""

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.audit.tables import TABLES, AuditTables
from eos_assets.cli.console import console
from eos_assets.cli.log_output import stderr_console
from eos_assets.cli.options import pipeline_options
from eos_assets.cli.target import prepare
from eos_assets.errors import EosError
from eos_assets.transform.spark_errors import summarize


@click.command("audit")
@pipeline_options
@click.option("--rebuild", is_flag=True, help="Delete the tables and write them again from the topics.")
@click.option("--sql", help="Query the tables by their names instead.")
def audit_command(pipeline: str, rebuild: bool, sql: str | None) -> None:
    """Update the audit tables of PIPELINE with what is committed, and show them.

    \b
    eos audit squares
    eos audit squares --rebuild
    eos audit squares --sql "select partition, sum(records_out) from audit_transactions group by partition"
    """
    from eos_assets.platform.spark_session import start_session

    settings, chosen, connection = prepare(pipeline)
    with stderr_console().status("Reading the topics …"):
        tables = AuditTables(chosen, start_session(settings), connection, settings.lake)
        if sql:
            columns, rows = query(tables, sql)
        else:
            states = tables.update(rebuild=rebuild)
            columns = ["table", "rows", "path"]
            rows = [(state.name, f"{state.rows:,}", state.path) for state in states]
    shown = Table(*columns, title=f"audit of {chosen.name}", title_justify="left")
    for row in rows:
        shown.add_row(*(escape(str(value)) for value in row))
    console().print(shown)


def query(tables: AuditTables, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    try:
        for table in TABLES:
            tables.read(table).createOrReplaceTempView(table)
        result = tables.context.spark.sql(sql).limit(1000)
        return result.columns, [tuple(row) for row in result.collect()]
    except Exception as failure:
        reason, name = summarize(failure).rstrip("."), tables.context.pipeline.name
        raise EosError(
            f"Spark cannot run the query: {reason}.",
            f"Check the statement. The tables are {', '.join(TABLES)}; `eos audit {name}` writes them.",
        ) from failure
