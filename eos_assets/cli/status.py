"""`eos status`: the servers of this machine, with their addresses, process ids and folders."""

import json
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.local.stack import Stack
from eos_assets.platform.running import Server, servers_died
from eos_assets.platform.settings import Settings


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Addresses, process ids, data and log folders for scripts.")
def status_command(as_json: bool) -> None:
    """Show which servers are running, and where."""
    stack = Stack(Settings.load())
    if as_json:
        report = {
            "home": str(stack.home),
            "bootstrap_servers": stack.address_of("kafka"),
            "spark": stack.address_of("spark"),
            "dagster": stack.address_of("dagster-webserver"),
            "exporter": stack.address_of("exporter"),
            "servers": [server.as_json() for server in stack.servers()],
        }
        click.echo(json.dumps(report, indent=2))
    elif servers := stack.servers():
        show_servers(servers)
        if dead := [server for server in servers if not server.process.is_alive()]:
            error = servers_died(dead)
            console().print(f"{error.problem} {error.remedy}", markup=False)
    else:
        click.echo(f"Nothing is running in {stack.home}. `eos up` starts Kafka, Spark and Dagster.")


def show_servers(servers: list[Server]) -> None:
    table = Table(title="eos", title_justify="left")
    for column in ("server", "state", "address", "pid", "data", "log"):
        table.add_column(column, overflow="fold")
    for row in (server.as_json() for server in servers):
        state = f"[green]{row['state']}" if row["state"] == "running" else f"[red]{row['state']}"
        data, log = escape(relative(row["data"])), escape(relative(row["log"]))
        table.add_row(row["name"], state, row["address"], str(row["pid"]), data, log)
    console().print(table)


def relative(path: str) -> str:
    """The path relative to the working directory, if it is below that."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
