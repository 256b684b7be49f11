"""The options that several commands share, and their order in the help text."""

import os
from collections.abc import Callable

import click

from eos_assets.declare.modes import Mode
from eos_assets.platform.setting_types import check_module_names

Command = Callable[..., None]


class ExperimentOption(click.Option):
    """An option for experiments only: the help text lists it last."""


class EosCommand(click.Command):
    """A command whose help text lists the options for experiments under a heading of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        experimental = [option for option in options if isinstance(option, ExperimentOption)]
        for heading, listed in (
            ("Options", [option for option in options if option not in experimental]),
            ("Options for experiments", experimental),
        ):
            if records := [record for option in listed if (record := option.get_help_record(ctx))]:
                with formatter.section(heading):
                    formatter.write_dl(records)


def module_option(command: Command) -> Command:
    return click.option(
        "--module",
        metavar="NAME",
        multiple=True,
        expose_value=False,
        callback=add_modules,
        help="A module or package that declares pipelines, in addition to those of EOS_MODULES and of [tool.eos] in "
        "pyproject.toml; repeatable.",
    )(command)


def add_modules(context: click.Context, parameter: click.Parameter, modules: tuple[str, ...]) -> None:
    """Add the modules to EOS_MODULES, for this process and those that it starts."""
    if modules:
        check_module_names(modules, "--module")
        os.environ["EOS_MODULES"] = ",".join([*modules, os.environ.get("EOS_MODULES", "")])


def pipeline_options(command: Command) -> Command:
    """The pipeline's name, and the modules that declare pipelines."""
    return click.argument("pipeline")(module_option(command))


def mode_option(command: Command) -> Command:
    return click.option(
        "--mode",
        cls=ExperimentOption,
        type=click.Choice([str(mode) for mode in Mode]),
        default=str(Mode.EXACTLY_ONCE),
        show_default=True,
        help="Delivery.",
    )(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)
