"""`eos doctor`, `eos jars` and `eos settings`: what this machine has and lacks."""

import os

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.progress import fetch_jars
from eos_assets.settings import MEANINGS, Settings


@click.command("doctor")
def doctor_command() -> None:
    """Check everything the platform needs here; status 1 if something needs a remedy."""
    from eos_assets.local.doctor import examine

    table = Table(title="eos doctor", title_justify="left", show_lines=True)
    for column in ("what", "", "found", "remedy"):
        table.add_column(column, overflow="fold")
    wrong = 0
    for finding in examine(Settings.load()):
        wrong += not finding.ok
        table.add_row(finding.name, "[green]ok" if finding.ok else "[red]wrong", finding.detail, finding.remedy)
    console().print(table)
    if wrong:
        raise click.exceptions.Exit(1)


@click.command("jars")
def jars_command() -> None:
    """Fetch the jars of Kafka and Spark, unless they are there and undamaged."""
    settings = Settings.load()
    fetch_jars(settings)
    click.echo(f"The jars are in {settings.jars_dir}.")


@click.command("settings")
def settings_command() -> None:
    """List every setting with its meaning and its value, if it is set."""
    table = Table("variable", "meaning", "set to")
    for name, meaning in MEANINGS.items():
        table.add_row(name, meaning, os.environ.get(name, ""))
    console().print(table)
