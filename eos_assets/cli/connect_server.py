"""`eos connect-server`: a Spark Connect server in the foreground, for a container or a supervisor."""

import os

import click

from eos_assets.cli.progress import fetch_jars
from eos_assets.platform.settings import Settings


@click.command("connect-server")
@click.option("--master", required=True, help="The Spark master to run on, e.g. spark://host:7077.")
@click.option("--host", required=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=15002, show_default=True, help="The port to listen on.")
@click.option("--name", help="The host name by which executors reach this server. Default: the host.")
@click.option("--executor-memory", default="1g", show_default=True, help="Memory of each executor.")
def connect_server_command(master: str, host: str, port: int, name: str | None, executor_memory: str) -> None:
    """Run a Spark Connect server with the project's jars. It replaces this process."""
    from eos_assets.local.spark_server import connect_command, connect_environment

    settings = Settings.load()
    fetch_jars(settings)
    more = {
        "spark.driver.host": name or host,
        "spark.driver.bindAddress": host,
        "spark.executor.memory": executor_memory,
    }
    command = connect_command(settings, master, host, port, settings.home / "spark", more)
    os.execve(command[0], command, {**os.environ, **connect_environment(settings)})
