"""`eos`, the command line: each command loads its own module, so that `eos --help` is quick."""

import importlib
import os
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from eos_assets.errors import EosError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

#: Command → (module, one line of help).
COMMANDS = {
    "up": ("servers", "Start Kafka, Spark and Dagster on this machine."),
    "down": ("servers", "End what `eos up` started."),
    "status": ("servers", "Show what runs where."),
    "doctor": ("doctor", "Check Java, ports, disk, jars, versions and brokers."),
    "jars": ("doctor", "Fetch the jars of Kafka and Spark."),
    "settings": ("doctor", "List every setting with its meaning."),
    "topics": ("topics", "Create and compare the declared topics."),
    "acls": ("acls", "Print the commands that grant a pipeline the least it needs."),
    "fill": ("fill", "Write integers into a topic, each exactly once."),
    "files": ("files", "Generate files of transactions, and announce files."),
    "preview": ("look", "Show records and what a pipeline makes of them."),
    "plan": ("run", "Show what a run would write."),
    "run": ("run", "Run a pipeline, exactly once."),
    "verify": ("verify", "Evaluate every invariant from the topics."),
    "checks": ("checks", "Evaluate all asset checks headless, as CI would."),
    "audit": ("audit", "Bring the audit tables up to date, rebuild them, or ask them."),
    "trace": ("look", "Show where a record came from, or what became of it."),
    "experiment": ("experiment", "Compare the three deliveries under the same failures."),
    "connect-server": ("connect", "Run a Spark Connect server in the foreground."),
    "demo": ("demo", "Run the main job on servers of its own."),
}


class Commands(click.Group):
    """Finds commands by name and prints an `EosError` as problem and remedy, without a stack trace."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"eos_assets.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except EosError as error:
            tell(error)
            raise click.exceptions.Exit(1) from error
        except Exception as error:
            from confluent_kafka import KafkaException  # not before: `eos --help` answers at once

            if not isinstance(error, KafkaException):
                raise
            tell(kafka_says(error.args[0]))
            raise click.exceptions.Exit(1) from error


def kafka_says(error: "KafkaError") -> EosError:
    from eos_assets.kafka.auth_errors import permission_error

    known = permission_error(error, os.environ.get("EOS_KAFKA_USERNAME") or "This principal")
    return known or EosError(f"Kafka says: {error.str()} ({error.name()}).", "Look with `eos doctor`.")


def tell(error: EosError) -> None:
    stderr = Console(stderr=True, highlight=False, soft_wrap=True)
    stderr.print(f"[bold red]error:[/] {escape(error.problem)}")
    stderr.print(f"[bold]remedy:[/] {escape(error.remedy)}")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="eos-assets")
def main() -> None:
    """Records from Kafka through Spark back to Kafka, exactly once, and the proof.

    \b
    First steps:
      eos up                             start Kafka and Spark here
      eos topics create                  create the declared topics
      eos fill datasource --count 1000   write some integers
      eos run squares                    square them, exactly once
      eos verify squares                 prove it
      eos down                           end everything again
    """
    from eos_assets.platform.loopback import bypass_proxy

    bypass_proxy()
