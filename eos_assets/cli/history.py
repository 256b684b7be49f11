"""`eos history`: what happened to a pipeline."""

import json
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import json_option, pipeline_options
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import find_pipeline
from eos_assets.log.history import RunHistory, read_history
from eos_assets.log.ledger import short_run_id, utc_time
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.topics import existing_topics

FIGURES = ("transactions", "records_in", "records_out", "skipped", "dead")


@click.command("history")
@pipeline_options
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this number of runs.")
@json_option
def history_command(pipeline: str, limit: int, as_json: bool) -> None:
    """Show what the runs, repairs and replays of PIPELINE have committed, newest last.

    It has ranges, records, attempts, code versions and times, and is read from the ledger. A run that committed nothing
    is not in it.
    """
    settings = Settings.load()
    chosen, connection = find_pipeline(pipeline, settings.modules), connect(settings)
    name = chosen.names().ledger
    runs = read_history(connection, name, existing_topics(chosen, connection, [name])[name].partitions)
    shown = runs[-limit:]
    if as_json:
        click.echo(json.dumps([plain(run) for run in shown], indent=2))
    elif runs:
        show(chosen, shown, len(runs))
    else:
        click.echo(f"{chosen.name} has committed nothing yet. `eos run {chosen.name}` runs it.")


def plain(run: RunHistory) -> dict[str, Any]:
    ranges = [{"partition": p, "start": start, "next": end} for p, (start, end) in sorted(run.ranges.items())]
    return {**asdict(run), "ranges": ranges}


def show(pipeline: Pipeline, runs: list[RunHistory], total: int) -> None:
    table = Table(title=f"history of {pipeline.name}", title_justify="left")
    for column in ("ended", "kind", "run", "seconds", "partitions and ranges", *FIGURES, "attempts", "code"):
        table.add_column(column, justify="right" if column in (*FIGURES, "seconds") else "left", overflow="fold")
    for run in runs:
        table.add_row(
            utc_time(run.ended_ms),
            run.kind,
            short_run_id(run.run),
            f"{(run.ended_ms - run.began_ms) / 1000:.1f}",
            ", ".join(f"{p} [{start}, {end})" for p, (start, end) in sorted(run.ranges.items())),
            *(f"{getattr(run, figure):,}" for figure in FIGURES),
            f"{run.run_attempt}·{run.task_attempt}",
            ", ".join(run.code_versions),
        )
    console().print(table)
    if len(runs) < total:
        console().print(f"The newest {len(runs)} of {total} runs; --limit shows more.")
