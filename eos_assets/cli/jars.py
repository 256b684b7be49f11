"""`eos jars`: fetch the jars of Kafka and Spark."""

import click

from eos_assets.cli.progress import fetch_jars
from eos_assets.platform.settings import Settings


@click.command("jars")
def jars_command() -> None:
    """Fetch the jars of Kafka and Spark, unless they are present and undamaged."""
    settings = Settings.load()
    fetch_jars(settings)
    click.echo(f"The jars are in {settings.jars_dir}.")
