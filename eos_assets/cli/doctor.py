"""`eos doctor`: check what the platform needs on this machine."""

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.platform.settings import Settings


@click.command("doctor")
def doctor_command() -> None:
    """Check everything the platform needs here; status 1 if something is wrong. A warning does not change it."""
    from eos_assets.local.doctor import examine

    table = Table(title="eos doctor", title_justify="left", show_lines=True)
    for column in ("what", "", "found", "remedy"):
        table.add_column(column, overflow="fold")
    wrong = 0
    for diagnosis in examine(Settings.load()):
        wrong += not diagnosis.ok
        state = "[red]wrong" if not diagnosis.ok else "[yellow]warning" if diagnosis.warns else "[green]ok"
        table.add_row(diagnosis.name, state, escape(diagnosis.detail), escape(diagnosis.remedy))
    console().print(table)
    if wrong:
        raise click.exceptions.Exit(1)
