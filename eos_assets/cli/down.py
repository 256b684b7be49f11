"""`eos down`: stop the servers of this machine."""

import click

from eos_assets.local.stack import Stack
from eos_assets.platform.settings import Settings


@click.command("down")
@click.option("--delete-data", is_flag=True, help="Also delete the topics and tables, and forget the ports.")
def down_command(delete_data: bool) -> None:
    """Stop every server that `eos up` started in this EOS_HOME, and nothing else."""
    stack = Stack(Settings.load())
    ended = stack.down(delete_data=delete_data)
    click.echo(f"Stopped the servers of {stack.home}." if ended else f"Nothing of {stack.home} was running.")
    if delete_data:
        click.echo("Deleted the data of Kafka, Spark and Dagster, and the tables in EOS_HOME.")
