"""`eos up`: start the servers of this machine."""

import signal
from types import FrameType

import click

from eos_assets.cli.log_output import stderr_console
from eos_assets.cli.options import module_option
from eos_assets.cli.progress import fetch_jars
from eos_assets.cli.status import show_servers
from eos_assets.declare.registry import NAME_MODULES, find_pipelines
from eos_assets.local.stack import Stack
from eos_assets.platform.settings import Settings

PORT = click.IntRange(1, 65535)


@click.command("up")
@click.option("--brokers", type=click.Choice(["1", "3"]), help="1, or 3 with replication 3 and min ISR 2. Default: 1.")
@click.option("--kafka-port", type=PORT, help="First port of the brokers; each takes two. At first 9092.")
@click.option("--spark-port", type=PORT, help="Port of Spark Connect. At first 15002.")
@click.option("--dagster-port", type=PORT, help="Port of the Dagster webserver. At first 3000.")
@click.option("--exporter-port", type=PORT, help="Port of the exporter of metrics. At first 9464.")
@click.option(
    "--secured/--not-secured", default=None, help="Kafka with SASL/SCRAM over TLS and access lists. Default: open."
)
@click.option("--dagster/--no-dagster", default=True, help="Whether to start the Dagster webserver and daemon, too.")
@click.option(
    "--exporter/--no-exporter", default=None, help="Whether to start the exporter of metrics. Default: as Dagster."
)
@module_option
def up_command(
    brokers: str | None,
    kafka_port: int | None,
    spark_port: int | None,
    dagster_port: int | None,
    exporter_port: int | None,
    secured: bool | None,
    dagster: bool,
    exporter: bool | None,
) -> None:
    """Start Kafka, Spark Connect, Dagster and an exporter of metrics on this machine, and leave them running.

    All of them listen on loopback only.

    A running server is kept, and one that died is started again with its data. Ctrl-C stops what this call started.

    A port is that of the option, else of EOS_KAFKA_PORT, EOS_SPARK_CONNECT_PORT, EOS_DAGSTER_PORT or
    EOS_EXPORTER_PORT, else that of the last `eos up` here, also after `eos down`.

    Dagster and the exporter show the pipelines that are found; without any there is no exporter. A
    --module holds until `eos down`; name a lasting one in pyproject.toml.
    """
    settings = Settings.load()
    stderr = stderr_console()
    found = bool(find_pipelines(settings.modules))
    if dagster and not found:
        stderr.print(f"No pipeline was found, so Dagster shows none. {NAME_MODULES}", markup=False)
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, interrupt)
    fetch_jars(settings)
    stack = Stack(settings)
    ports = stack.remembered_ports.choose(
        settings, kafka=kafka_port, spark=spark_port, dagster=dagster_port, exporter=exporter_port
    )
    with stderr.status("Checking what is running …") as status:
        servers = stack.up(
            brokers=int(brokers) if brokers else None,
            ports=ports,
            dagster=dagster,
            exporter=found and (dagster if exporter is None else exporter),
            on_progress=status.update,
            secured=secured,
        )
    show_servers(servers)


def interrupt(signum: int, frame: FrameType | None) -> None:
    """Treat a termination like Ctrl-C, so that what was started is stopped again."""
    raise KeyboardInterrupt
