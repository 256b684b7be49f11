"""`eos doctor`, `eos jars` and `eos settings`: what this machine has and lacks."""

import os

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.progress import fetch_jars
from eos_assets.platform.setting_types import hide_token
from eos_assets.platform.settings import SETTINGS, Settings, markdown_table


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
        state = "[green]ok" if finding.ok else "[red]wrong"
        table.add_row(finding.name, state, escape(finding.detail), escape(finding.remedy))
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
@click.option("--markdown", is_flag=True, help="As in docs/configuration.md.")
def settings_command(markdown: bool) -> None:
    """List every setting with its default, its meaning and its value, if it is set. Secrets are not shown."""
    if markdown:
        click.echo(markdown_table(), nl=False)
        return
    table = Table("variable", "default", "meaning", "set to")
    for setting in SETTINGS:
        value = os.environ.get(setting.name, "")
        values = f" ({', '.join(setting.choices)})" if setting.choices else ""
        told = "(hidden)" if value and setting.secret else hide_token(value)
        table.add_row(*(escape(cell) for cell in (setting.name, setting.default, setting.meaning + values, told)))
    console().print(table)
