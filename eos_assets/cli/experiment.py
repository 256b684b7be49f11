"""`eos experiment`: three deliveries under the same failures, side by side."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import json_option
from eos_assets.cli.progress import bar, fetch_jars
from eos_assets.declare.modes import Mode
from eos_assets.errors import EosError
from eos_assets.experiment.classification import find_anomalies
from eos_assets.experiment.faults import KINDS
from eos_assets.experiment.matrix import QUICK, SEED, Experiment, Matrix, run_experiment
from eos_assets.experiment.report import html
from eos_assets.experiment.table import COLUMNS, SUMMARY_COLUMNS, headline, rows, summary
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings


class Several(click.ParamType[tuple[object, ...]]):
    """Values separated by commas."""

    def __init__(self, one: click.ParamType[Any]) -> None:
        self.one = one
        self.name = f"{one.name},…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[object, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(self.one.convert(part.strip(), param, ctx) for part in str(value).split(","))


@click.command("experiment")
@click.option("--modes", type=Several(click.Choice([str(mode) for mode in Mode])), help="Deliveries to compare.")
@click.option("--probabilities", type=Several(click.FLOAT), help="Of each transaction to fail: 0 to 1.")
@click.option("--kinds", type=Several(click.Choice(KINDS)), help="Of failure: before or after the commit, hard kill.")
@click.option("--records", type=click.IntRange(1), help=f"For each cell. Default: {Matrix.records}.")
@click.option("--partitions", type=click.IntRange(1), help=f"Of each source. Default: {Matrix.partitions}.")
@click.option("--seed", type=int, default=SEED, show_default=True, help="Which transactions fail: the same, the same.")
@click.option("--max-attempts", type=click.IntRange(1), help=f"Jobs a partition. Default: {Matrix.max_attempts}.")
@click.option("--quick", is_flag=True, help="Fewer probabilities, records and partitions.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the report with its plots."
)
@json_option
def experiment_command(seed: int, quick: bool, page: Path | None, as_json: bool, **chosen: object) -> None:
    """Compare at-most-once, at-least-once and exactly-once under the same failures, and count what each does.

    Lists are separated by commas. Each cell fills a source of its own, squares it to the end, and a plain consumer
    counts what is doubled, lost, out of order or aborted; its topics are deleted afterwards. The time is relative to
    at-least-once under the same failures. Status 1 if exactly-once loses or doubles anything, and also if a weaker
    delivery does no harm where failures struck: then the comparison would prove nothing.
    """
    from eos_assets.orchestration.resources.spark import SparkResource

    wanted = {name: value for name, value in chosen.items() if value is not None}
    if "modes" in wanted:
        wanted["modes"] = tuple(Mode(str(mode)) for mode in chosen["modes"])  # type: ignore[attr-defined]
    matrix = replace(QUICK if quick else Matrix(), seed=seed, **wanted)  # type: ignore[arg-type]
    if page is not None:
        writable(page)
    settings = Settings.load()
    connection = connect(settings)
    connection.metadata()
    fetch_jars(settings)
    with bar("Experiment", len(list(matrix.cells()))) as done:
        spark = SparkResource().spark_session
        experiment = run_experiment(matrix, spark, connection, lambda count, _: done(count))
    found = find_anomalies(experiment.results)
    if page is not None:
        page.write_text(html(experiment))
    if as_json:
        click.echo(json.dumps(plain(experiment, found), indent=2))
    else:
        show(experiment, found)
        if page is not None:
            click.echo(f"Report with plots: {page}")
    if found:
        raise click.exceptions.Exit(1)


def writable(page: Path) -> None:
    """A report that cannot be written is noticed before the work, not after it."""
    folder = page.resolve().parent
    if not folder.is_dir():
        raise EosError(f"There is no folder {page.parent} for the report.", "Create it, or give another file.")
    if not os.access(page if page.exists() else folder, os.W_OK):
        raise EosError(f"{page} cannot be written.", "Give another file, or mend the permissions.")


def plain(experiment: Experiment, found: list[str]) -> dict[str, object]:
    cells = [{**result.row(), "relative_time": experiment.relative(result)} for result in experiment.results]
    facts = {"experiment": experiment.id, "holds": not found, "problems": found, "seconds": experiment.seconds}
    return {**facts, "matrix": asdict(experiment.matrix), "cells": cells}


def show(experiment: Experiment, found: list[str]) -> None:
    """Each cell, then each delivery, then the verdict."""
    cells = Table(title="the same failures, three deliveries")
    for column in COLUMNS:
        cells.add_column(column, justify="left" if column in ("failure", "delivery", "outcome") else "right")
    width = len(experiment.matrix.modes)
    for number, line in enumerate(rows(experiment)):
        cells.add_row(*map(told, COLUMNS, line), end_section=number % width == width - 1)
    console().print(cells)
    modes = Table(title="each delivery, over all its cells")
    for column in SUMMARY_COLUMNS:
        modes.add_column(column, justify="left" if column == "delivery" else "right")
    for line in summary(experiment):
        modes.add_row(*map(told, SUMMARY_COLUMNS, line))
    console().print(modes)
    console().print(headline(experiment), markup=False, highlight=False)
    for problem in found:
        console().print(f"broken: {problem}", markup=False, style="red")


def told(column: str, value: str) -> str:
    """Harm in red, giving up in yellow, what did not happen in the background."""
    if value == "0":
        return "[dim]0"
    if column in ("doubled", "lost", "out of order"):
        return f"[red]{value}"
    return f"[yellow]{value}" if value == "gave up" else value
