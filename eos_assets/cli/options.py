"""The options that several commands share."""

from collections.abc import Callable

import click

from eos_assets.declare.modes import Mode

Command = Callable[..., None]


def pipeline_options(command: Command) -> Command:
    """The pipeline's name, and the modules that declare pipelines."""
    module = click.option("--module", "modules", multiple=True, help="Also look for pipelines in this module.")
    return click.argument("pipeline")(module(command))


def mode_option(command: Command) -> Command:
    modes = click.Choice([str(mode) for mode in Mode])
    return click.option("--mode", type=modes, default=str(Mode.EXACTLY_ONCE), show_default=True, help="Delivery.")(
        command
    )


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)
