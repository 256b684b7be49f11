"""`eos up`, `eos down` and `eos status`: the local servers."""

import json
import signal
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.progress import fetch_jars
from eos_assets.local.stack import Stack
from eos_assets.platform.running import Server
from eos_assets.platform.settings import Settings

PORT = click.IntRange(1, 65535)


@click.command("up")
@click.option("--brokers", type=click.Choice(["1", "3"]), help="1, or 3 with replication 3 and min ISR 2. Default: 1.")
@click.option(
    "--kafka-port", type=PORT, help="First port of the brokers; each takes two. Default: EOS_KAFKA_PORT, 9092."
)
@click.option("--spark-port", type=PORT, help="Port of Spark Connect. Default: EOS_SPARK_CONNECT_PORT, 15002.")
@click.option("--dagster-port", type=PORT, help="Port of the Dagster webserver. Default: EOS_DAGSTER_PORT, 3000.")
@click.option(
    "--secured/--not-secured", default=None, help="Kafka with SASL/SCRAM over TLS and access lists. Default: open."
)
@click.option("--dagster/--no-dagster", default=True, help="Whether to start the Dagster webserver and daemon, too.")
def up_command(
    brokers: str | None,
    kafka_port: int | None,
    spark_port: int | None,
    dagster_port: int | None,
    secured: bool | None,
    dagster: bool,
) -> None:
    """Start Kafka, Spark Connect and Dagster on this machine, on loopback, and leave them running.

    What already runs is kept, what died is started again with its data. Ctrl-C ends what this call started.
    """
    settings = Settings.load()
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, interrupt)
    fetch_jars(settings)
    stderr = Console(stderr=True, highlight=False)
    with stderr.status("Looking around …") as status:
        servers = Stack(settings).up(
            brokers=int(brokers) if brokers else None,
            kafka_port=kafka_port or settings.kafka_port,
            spark_port=spark_port or settings.spark_connect_port,
            dagster_port=(dagster_port or settings.dagster_port) if dagster else None,
            on_progress=status.update,
            secured=secured,
        )
    show(servers)


def interrupt(signum: int, frame: FrameType | None) -> None:
    """A terminated `eos up` ends like an interrupted one: with nothing left behind."""
    raise KeyboardInterrupt


@click.command("down")
@click.option("--delete-data", is_flag=True, help="Also delete the topics and tables of this EOS_HOME.")
def down_command(delete_data: bool) -> None:
    """End every server that `eos up` started in this EOS_HOME, and nothing else."""
    stack = Stack(Settings.load())
    ended = stack.down(delete_data=delete_data)
    click.echo(f"Ended {ended} process(es) of {stack.home}." if ended else f"Nothing of {stack.home} was running.")
    if delete_data:
        click.echo("Deleted the data of Kafka, Spark and Dagster, and the tables in EOS_HOME.")


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Addresses, process ids, data and log folders for scripts.")
def status_command(as_json: bool) -> None:
    """Show what runs where."""
    stack = Stack(Settings.load())
    if as_json:
        report = {
            "home": str(stack.home),
            "bootstrap_servers": stack.address_of("kafka"),
            "spark": stack.address_of("spark"),
            "dagster": stack.address_of("dagster-webserver"),
            "servers": [server.as_json() for server in stack.servers()],
        }
        click.echo(json.dumps(report, indent=2))
    elif servers := stack.servers():
        show(servers)
    else:
        click.echo(f"Nothing runs in {stack.home}. `eos up` starts Kafka, Spark and Dagster.")


def show(servers: list[Server]) -> None:
    table = Table(title="eos", title_justify="left")
    for column in ("server", "state", "address", "pid", "data", "log"):
        table.add_column(column, overflow="fold")
    for row in (server.as_json() for server in servers):
        state = f"[green]{row['state']}" if row["state"] == "running" else f"[red]{row['state']}"
        data, log = escape(near(row["data"])), escape(near(row["log"]))
        table.add_row(row["name"], state, row["address"], str(row["pid"]), data, log)
    console().print(table)


def near(path: str) -> str:
    """The path as seen from here, where that is shorter."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
