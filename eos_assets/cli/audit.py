"""`eos audit`: the audit tables, brought up to date, rebuilt, or asked in SQL."""

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eos_assets.audit.tables import TABLES, AuditTables
from eos_assets.cli.console import console
from eos_assets.cli.options import pipeline_options
from eos_assets.cli.target import reach
from eos_assets.errors import EosError


@click.command("audit")
@pipeline_options
@click.option("--rebuild", is_flag=True, help="Forget the tables and make them again from the topics.")
@click.option("--sql", help="Ask the tables instead: they are there by their names.")
def audit_command(pipeline: str, modules: tuple[str, ...], rebuild: bool, sql: str | None) -> None:
    """Bring the audit tables of PIPELINE up to what is committed, and show them.

    \b
    eos audit squares
    eos audit squares --rebuild
    eos audit squares --sql "select partition, sum(records_out) from audit_transactions group by partition"
    """
    from eos_assets.orchestration.resources.spark import SparkResource

    settings, chosen, connection = reach(pipeline, modules)
    with Console(stderr=True).status("Reading the topics …"):
        tables = AuditTables(chosen, SparkResource().spark_session, connection, settings.lake)
        if sql:
            columns, rows = answered(tables, sql)
        else:
            states = tables.update(rebuild=rebuild)
            columns = ["table", "rows", "path"]
            rows = [(state.name, f"{state.rows:,}", state.path) for state in states]
    shown = Table(*columns, title=f"audit of {chosen.name}", title_justify="left")
    for row in rows:
        shown.add_row(*(escape(str(value)) for value in row))
    console().print(shown)


def answered(tables: AuditTables, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    try:
        for table in TABLES:
            tables.read(table).createOrReplaceTempView(table)
        answer = tables.spark.sql(sql).limit(1000)
        return answer.columns, [tuple(row) for row in answer.collect()]
    except Exception as failure:
        why = str(failure).splitlines()[0]
        made = f"`eos audit {tables.pipeline.name}` makes them"
        remedy = f"Check the statement; the tables are {', '.join(TABLES)}, and {made}."
        raise EosError(f"Spark cannot answer: {why}", remedy) from failure
