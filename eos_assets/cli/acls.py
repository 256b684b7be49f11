"""`eos acls`: the least permissions of a pipeline, as commands for Kafka's own tool."""

import json

import click

from eos_assets.cli.options import EosCommand, json_option, mode_option, pipeline_options
from eos_assets.declare.modes import Mode
from eos_assets.declare.registry import find_pipeline
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.permissions import creation, permissions


@click.command("acls", cls=EosCommand)
@pipeline_options
@mode_option
@json_option
@click.option(
    "--principal", required=True, help="The principal that runs it, as the brokers name it, e.g. User:squares."
)
@click.option(
    "--creation", "with_creation", is_flag=True, help="Add what `eos topics create` and a growing source need."
)
@click.option("--bootstrap-server", help="The brokers, for each command: host:port,….")
@click.option("--command-config", help="The administrator's file of client properties, for each command.")
def acls_command(
    pipeline: str,
    mode: str,
    as_json: bool,
    principal: str,
    with_creation: bool,
    bootstrap_server: str | None,
    command_config: str | None,
) -> None:
    """Print one kafka-acls.sh command for each permission that PIPELINE needs. Connects to no broker.

    With --bootstrap-server and --command-config an administrator can run them unchanged.
    """
    chosen = find_pipeline(pipeline, Settings.load().modules)
    needed = permissions(chosen, Mode(mode)) + (creation(chosen, Mode(mode)) if with_creation else [])
    if as_json:
        rows = [{"resource": p.kind, "name": p.name, "operation": p.operation, "prefixed": p.prefixed} for p in needed]
        click.echo(json.dumps(rows, indent=2))
        return
    options = (("--bootstrap-server", bootstrap_server), ("--command-config", command_config))
    access = tuple(word for name, value in options if value for word in (name, value))
    for permission in needed:
        click.echo(f"{permission.command(principal, access)}  # {permission.why}")
