"""`eos verify`: evaluate every invariant from the topics themselves."""

import json
from dataclasses import asdict, replace

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.log_output import stderr_console
from eos_assets.cli.options import EosCommand, json_option, mode_option, pipeline_options
from eos_assets.cli.target import prepare
from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode
from eos_assets.verify.findings import Verification
from eos_assets.verify.verify import verify_pipeline

ISOLATION = click.Choice(["read_committed", "read_uncommitted"])


@click.command("verify", cls=EosCommand)
@pipeline_options
@mode_option
@json_option
@click.option(
    "--full", is_flag=True, help="Check everything that is retained, not only what was written since the last proof."
)
@click.option("--isolation", type=ISOLATION, default="read_committed", show_default=True, help="How to read the sink.")
def verify_command(pipeline: str, mode: str, as_json: bool, full: bool, isolation: str) -> None:
    """Read source, sink, dead letters and ledger of PIPELINE and evaluate every invariant; status 1 if one is broken.

    A proof that holds is recorded, and the next one continues from there; --full starts from the beginning.
    --isolation read_uncommitted shows what a reader sees that does not ask for committed records only.
    """
    from eos_assets.platform.spark_session import start_session

    settings, chosen, connection = prepare(pipeline)
    with stderr_console().status("Reading the topics …"):
        spark = start_session(settings)
        result = verify_pipeline(
            chosen, spark, connection, mode=Mode(mode), isolation=isolation, full=full, lake=settings.lake
        )
        if result.mode is Mode.EXACTLY_ONCE and isolation == "read_committed":
            declared = [check.finding(chosen, spark, connection) for check in chosen.checks]
            result = replace(result, findings=[*result.findings, *declared])
    if as_json:
        facts = {"pipeline": result.pipeline, "mode": result.mode, "isolation": isolation, "holds": result.holds}
        facts |= {"incremental": result.incremental, "nothing_new": result.nothing_new}
        invariants = [asdict(finding) for finding in result.findings]
        click.echo(
            json.dumps({**facts, **result.figures, "versions": result.versions, "invariants": invariants}, indent=2)
        )
    else:
        show(result, isolation)
    if not result.holds:
        raise click.exceptions.Exit(1)


def show(result: Verification, isolation: str = "read_committed") -> None:
    """Print one line per invariant with its figures, then the counter-examples."""
    table = Table("invariant", "", "found", title=title(result, isolation))
    for finding in result.findings:
        table.add_row(finding.name, mark(finding), finding.detail)
    console().print(table)
    for finding in result.findings:
        if not finding.holds:
            console().print(
                f"{finding.name}:", *(f"  {example}" for example in finding.examples), sep="\n", markup=False
            )
    if result.nothing_new:
        console().print(f"{result.pipeline}: {result.nothing_new}", markup=False, highlight=False)
    if gone := result.figures["no_longer_provable"]:
        console().print(
            f"{gone:,} source offsets are no longer provable, because of retention: they neither passed nor failed."
        )
    for line in result.versions:
        console().print(f"code version, {line}", markup=False)


def title(result: Verification, isolation: str) -> str:
    since = "since the last proof" if result.incremental else "all that is retained"
    return f"{result.pipeline}, {result.mode}, {isolation}, {since}"


def mark(finding: Finding) -> str:
    if not finding.evaluated:
        return "[yellow]not evaluated"
    if finding.holds:
        return "[green]holds"
    return "[yellow]warning" if finding.severity == "warning" else "[red]broken"
