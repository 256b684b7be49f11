"""`eos acls`: the least permissions of a pipeline, as commands for Kafka's own tool."""

import json

import click

from eos_assets.cli.options import json_option, mode_option, pipeline_options
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.permissions import creation, permissions
from eos_assets.registry import find_pipeline


@click.command("acls")
@pipeline_options
@mode_option
@json_option
@click.option("--principal", required=True, help="Who runs it, as the brokers name it, e.g. User:squares.")
@click.option("--creation", "with_creation", is_flag=True, help="Also what `eos topics create` and growth need.")
def acls_command(
    pipeline: str, modules: tuple[str, ...], mode: str, as_json: bool, principal: str, with_creation: bool
) -> None:
    """Print one kafka-acls.sh command for each permission that PIPELINE needs. Talks to no broker.

    Add --bootstrap-server and --command-config of an administrator to each.
    """
    chosen = find_pipeline(pipeline, modules)
    needed = permissions(chosen, Mode(mode)) + (creation(chosen, Mode(mode)) if with_creation else [])
    if as_json:
        rows = [{"resource": p.kind, "name": p.name, "operation": p.operation, "prefixed": p.prefixed} for p in needed]
        click.echo(json.dumps(rows, indent=2))
        return
    for permission in needed:
        click.echo(f"{permission.command(principal)}  # {permission.why}")
