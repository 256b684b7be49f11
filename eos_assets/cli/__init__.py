"""`eos`, the command line. Each command is a module of its own, loaded when it is called, so `eos --help` is quick."""

import difflib
import importlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from eos_assets.errors import EosError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

#: The commands in the order of use, under the headings of `eos --help`, each with one line of help. The module of a
#: command has its name, with "_" for "-".
SECTIONS = {
    "Set up": {
        "up": "Start Kafka, Spark and Dagster on this machine.",
        "status": "Show which servers are running, and where.",
        "down": "Stop the servers of `eos up`.",
        "doctor": "Check Java, ports, disk, jars, versions and brokers.",
        "topics": "Create and compare the declared topics.",
        "settings": "List every setting with its meaning.",
        "acls": "Print the commands that grant a pipeline the permissions it needs, and no others.",
        "jars": "Fetch the jars of Kafka and Spark.",
        "connect-server": "Run a Spark Connect server in the foreground.",
    },
    "Run": {
        "preview": "Show source records and what a pipeline makes of them.",
        "plan": "Show what a run would write.",
        "run": "Run a pipeline, exactly once.",
        "dead-letters": "List, show, replay and discard rejected records.",
    },
    "Prove": {
        "verify": "Evaluate every invariant from the topics.",
        "checks": "Evaluate all asset checks headless, as CI would.",
        "repair": "Produce again what a proof shows missing, and list doubles.",
    },
    "Look": {
        "history": "Show what the runs and repairs of a pipeline have committed.",
        "trace": "Show where a record came from, or what became of it.",
        "audit": "Update, rebuild or query the audit tables.",
        "transactions": "List transactions that hold back a topic, and abort them.",
        "exporter": "Serve the metrics of the pipelines to Prometheus.",
    },
    "Experiment": {
        "demo": "Run the main job on servers that it starts.",
        "fill": "Write integers into a topic, each exactly once.",
        "files": "Generate files of transactions, and announce files.",
        "experiment": "Compare the three deliveries under the same failures.",
        "chaos": "Run a pipeline under random faults, and prove that nothing is lost.",
    },
}
logger = logging.getLogger(__name__)

COMMANDS = [name for commands in SECTIONS.values() for name in commands]


class Commands(click.Group):
    """Finds commands by name and prints an `EosError` as problem and remedy, without a stack trace."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"eos_assets.cli.{name}"), f"{name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for one that does not exist."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except EosError as error:
            print_error(error)
            raise click.exceptions.Exit(1) from error
        except Exception as error:
            from confluent_kafka import KafkaException  # not before: `eos --help` stays quick

            if not isinstance(error, KafkaException):
                raise
            print_error(explain(error.args[0]))
            raise click.exceptions.Exit(1) from error


def explain(error: "KafkaError") -> EosError:
    from eos_assets.kafka.auth_errors import permission_error

    known = permission_error(error, os.environ.get("EOS_KAFKA_USERNAME") or "This principal")
    return known or EosError(f"Kafka reported: {error.str()} ({error.name()}).", "Check the cluster with `eos doctor`.")


def print_error(error: EosError) -> None:
    from eos_assets.cli.log_output import logs_json

    if logs_json():
        logger.error(error.problem, extra={"event": "refusal", "remedy": error.remedy})
        return
    stderr = Console(stderr=True, highlight=False, soft_wrap=True)
    stderr.print(f"[bold red]error:[/] {escape(error.problem)}")
    stderr.print(f"[bold]remedy:[/] {escape(error.remedy)}")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="eos-assets")
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="What is logged, on standard error: json is one object a line, and no progress bars.",
)
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    help="What is logged at least. Default: info for json; as text, the warnings of a run.",
)
def main(log_format: str, log_level: str | None) -> None:
    """Records from Kafka through Spark back to Kafka, exactly once, and the proof of it.

    \b
    First steps:
      eos up                             start Kafka, Spark and Dagster here
      eos topics create                  create the topics of your pipelines
      eos fill datasource --count 1000   write some integers
      eos run squares                    square them, exactly once
      eos verify squares                 prove it
      eos down                           stop everything again

    Your pipelines are found in the modules of --module, of EOS_MODULES, and of `modules = ["my.module"]` under
    [tool.eos] in pyproject.toml, and in installed packages with an entry point in the group eos_assets.pipelines.
    """
    from eos_assets.cli.log_output import configure
    from eos_assets.platform.loopback import bypass_proxy
    from eos_assets.platform.project import make_importable

    configure(log_format, log_level)

    make_importable(Path.cwd())
    bypass_proxy()
