"""`eos settings`: every environment variable that this project reads."""

import os

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.platform.setting_types import hide_token
from eos_assets.platform.settings import SETTINGS, markdown_table


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
        choices = f" ({', '.join(setting.choices)})" if setting.choices else ""
        shown = "(hidden)" if value and setting.secret else hide_token(value)
        table.add_row(*(escape(cell) for cell in (setting.name, setting.default, setting.meaning + choices, shown)))
    console().print(table)
