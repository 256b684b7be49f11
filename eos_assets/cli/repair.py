"""`eos repair`: list what a proof shows missing or doubled, and produce again what is missing."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import EosCommand, json_option, pipeline_options
from eos_assets.cli.progress import log_messages
from eos_assets.cli.target import prepare
from eos_assets.context import PipelineContext
from eos_assets.errors import Reaction
from eos_assets.log.ledger import short_run_id
from eos_assets.repair.plan import MOST_ROWS, RepairPlan, plan_repair
from eos_assets.repair.repair import RepairOptions, RepairReport, apply_repair

#: The most rows of a table; JSON has all.
SHOWN = 20


@click.command("repair", cls=EosCommand)
@pipeline_options
@click.option("--apply/--dry-run", "apply", default=False, help="Write what is missing; by default nothing is written.")
@json_option
def repair_command(pipeline: str, apply: bool, as_json: bool) -> None:
    """Show what a proof of PIPELINE finds missing or doubled; with --apply, produce again what is missing.

    It proves all that is retained first. What is missing is written in one transaction per source partition, and what
    cannot be produced again is named with the reason. Doubles are listed for readers to skip; no record is deleted.
    Status 1 if anything is left. Applying twice, or twice at once, does no harm.
    """
    from eos_assets.platform.spark_session import start_session

    settings, chosen, connection = prepare(pipeline)
    stderr, report = Console(stderr=True), None
    with stderr.status("Proving all that is retained …") as status, log_messages(stderr):
        plan = plan_repair(PipelineContext(chosen, start_session(settings), connection))
        if apply and plan.repairs:
            status.update("Writing what is missing …")
            report = apply_repair(plan, RepairOptions(accepted_spark=settings.accept_spark))
    if as_json:
        click.echo(json.dumps(facts(plan, report), indent=2))
    else:
        show(plan, report)
    if not is_complete(plan, report):
        raise click.exceptions.Exit(1)


def is_complete(plan: RepairPlan, report: RepairReport | None) -> bool:
    """Whether nothing is left: everything holds, or all that is wrong was written again."""
    left = plan.unrepairable or plan.doubles or plan.cut or plan.unexplained
    written = report.complete if report else not plan.repairs
    return plan.nothing_to_do or (written and not left)


def facts(plan: RepairPlan, report: RepairReport | None) -> dict[str, object]:
    return {
        "pipeline": plan.context.pipeline.name,
        "broken": plan.broken,
        "missing": [asdict(one) for one in plan.missing],
        "unrepairable": [asdict(one) for one in plan.unrepairable],
        "doubles": [asdict(one) for one in plan.doubles],
        "cut": plan.cut,
        "run": report.run if report else None,
        "partitions": [outcome.row() for outcome in report.outcomes] if report else [],
        "complete": is_complete(plan, report),
    }


def show(plan: RepairPlan, report: RepairReport | None) -> None:
    name = plan.context.pipeline.name
    if plan.nothing_to_do:
        console().print(f"{name}: nothing to repair; every invariant over records and ledger holds", markup=False)
        return
    show_rows(
        f"{name}: missing",
        ("source record", "output", "belongs to", "had been written"),
        [(one.origin, output_name(one.sequence), one.place, "yes" if one.was_written else "") for one in plan.missing],
    )
    show_rows(f"{name}: not repairable", ("what", "reason"), [(one.what, one.reason) for one in plan.unrepairable])
    show_rows(
        f"{name}: doubles, to be skipped by readers",
        ("topic", "partition", "offset", "source record"),
        [(one.topic, str(one.partition), str(one.offset), one.origin or "no map names it") for one in plan.doubles],
    )
    if plan.unexplained:
        console().print(f"broken, and nothing to write for it: {', '.join(plan.unexplained)}", markup=False)
    if plan.cut:
        console().print(f"A list was cut at {MOST_ROWS:,} rows: repair again for the rest.")
    if report:
        show_report(name, report)
    elif plan.repairs:
        console().print(f"Nothing was written. `eos repair {name} --apply` writes what is missing.", markup=False)


def output_name(sequence: int) -> str:
    return "skip" if sequence < 0 else str(sequence)


def show_rows(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    """A table of the first rows, if there are any."""
    if not rows:
        return
    others = f"; the first {SHOWN} are shown, --json lists all" if len(rows) > SHOWN else ""
    table = Table(*columns, title=f"{title} ({len(rows):,}{others})")
    for row in rows[:SHOWN]:
        table.add_row(*map(escape, row))
    console().print(table)


def show_report(name: str, report: RepairReport) -> None:
    table = Table(title=f"repair {short_run_id(report.run)} of {name}")
    for column in ("partition", "position", "records", "outputs", "skipped", "dead", "outcome"):
        table.add_column(column, justify="right")
    for o in report.outcomes:
        colour = "green" if o.reaction is Reaction.DONE else "red"
        counts = (o.records_in, o.records_out, o.skipped, o.dead)
        table.add_row(str(o.partition), str(o.next), *(f"{n:,}" for n in counts), f"[{colour}]{o.outcome}")
    console().print(table)
    for o in report.outcomes:
        if o.reason:
            console().print(f"partition {o.partition}: {o.reason}", markup=False)
    console().print(f"`eos verify {name}` proves the result.", markup=False)
