"""`eos plan`: what a run would write."""

import json

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import EosCommand, json_option, mode_option, pipeline_options
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import find_pipeline
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings
from eos_assets.run.plan import PartitionPlan, describe_held_back, make_plan

COLUMNS = ("partition", "position", "last stable", "log start", "lag", "would write", "transactions")


@click.command("plan", cls=EosCommand)
@pipeline_options
@mode_option
@json_option
def plan_command(pipeline: str, mode: str, as_json: bool) -> None:
    """Show the position of PIPELINE in each source partition and what a run would write. Writes nothing.

    Where an open transaction holds back the last stable offset, its producer is named.
    """
    settings = Settings.load()
    chosen = find_pipeline(pipeline, settings.modules)
    connection = connect(settings)
    plans = make_plan(chosen, connection, mode=Mode(mode))
    held_back = describe_held_back(chosen, connection, plans)
    if as_json:
        rows = [plain(chosen, plan) | {"held_back": held_back.get(plan.partition)} for plan in plans]
        click.echo(json.dumps(rows, indent=2))
    else:
        show(chosen, plans)
        for text in held_back.values():
            console().print(text, markup=False, highlight=False)


def plain(pipeline: Pipeline, plan: PartitionPlan) -> dict[str, object]:
    return {
        "partition": plan.partition,
        "position": plan.position,
        "last_stable_offset": plan.stable_end,
        "high_watermark": plan.high_watermark,
        "log_start": plan.log_start,
        "lag": plan.lag,
        "transactions": plan.transactions(pipeline.batching.records),
    }


def show(pipeline: Pipeline, plans: list[PartitionPlan]) -> None:
    sinks = ", ".join(sink.name for sink in pipeline.sinks)
    table = Table(title=f"plan of {pipeline.name}: {pipeline.source.name} → {sinks}")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for plan in plans:
        would_write = f"[{plan.position}, {plan.end})" if plan.range.size else "nothing"
        cells = (plan.partition, plan.position, plan.stable_end, plan.log_start, plan.lag, would_write)
        table.add_row(*map(str, cells), str(plan.transactions(pipeline.batching.records)))
    console().print(table)
