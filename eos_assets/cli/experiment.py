"""`eos experiment`: compare the three deliveries under the same failures."""

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
@click.option("--probabilities", type=Several(click.FLOAT), help="Probabilities that a transaction fails: 0 to 1.")
@click.option(
    "--kinds",
    type=Several(click.Choice(KINDS)),
    help="Kinds of failure: before or after the commit, or a killed worker.",
)
@click.option("--records", type=click.IntRange(1), help=f"Records of each cell. Default: {Matrix.records}.")
@click.option("--partitions", type=click.IntRange(1), help=f"Partitions of each source. Default: {Matrix.partitions}.")
@click.option(
    "--seed",
    type=int,
    default=SEED,
    show_default=True,
    help="Selects the transactions that fail; a seed always selects the same ones.",
)
@click.option(
    "--max-attempts", type=click.IntRange(1), help=f"Spark jobs before a cell gives up. Default: {Matrix.max_attempts}."
)
@click.option("--quick", is_flag=True, help="Fewer probabilities, records and partitions.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the report with its plots."
)
@json_option
def experiment_command(seed: int, quick: bool, page: Path | None, as_json: bool, **chosen: object) -> None:
    """Compare at-most-once, at-least-once and exactly-once under the same failures, and count what each of them breaks.

    Lists are separated by commas. Each cell fills a source of its own and squares it, and a plain consumer counts what
    is doubled, lost, out of order or aborted; its topics are deleted afterwards. The time is relative to at-least-once
    under the same failures. Status 1 if exactly-once loses or doubles a record, and also if a baseline delivery
    does not where transactions failed: then the comparison would prove nothing.
    """
    from eos_assets.platform.spark_session import start_session

    options = {name: value for name, value in chosen.items() if value is not None}
    if "modes" in options:
        options["modes"] = tuple(Mode(str(mode)) for mode in chosen["modes"])  # type: ignore[attr-defined]
    matrix = replace(QUICK if quick else Matrix(), seed=seed, **options)  # type: ignore[arg-type]
    if page is not None:
        check_writable(page)
    settings = Settings.load()
    connection = connect(settings)
    connection.metadata()
    fetch_jars(settings)
    with bar("Experiment", len(list(matrix.cells()))) as done:
        spark = start_session(settings)
        experiment = run_experiment(matrix, spark, connection, lambda count, _: done(count))
    anomalies = find_anomalies(experiment.results)
    if page is not None:
        page.write_text(html(experiment))
    if as_json:
        click.echo(json.dumps(plain(experiment, anomalies), indent=2))
    else:
        show(experiment, anomalies)
        if page is not None:
            click.echo(f"Report with plots: {page}")
    if anomalies:
        raise click.exceptions.Exit(1)


def check_writable(page: Path) -> None:
    """Refuse a report that cannot be written, before the work and not after it."""
    folder = page.resolve().parent
    if not folder.is_dir():
        raise EosError(f"The folder {page.parent} of the report does not exist.", "Create it, or choose another file.")
    if not os.access(page if page.exists() else folder, os.W_OK):
        raise EosError(f"{page} cannot be written.", "Choose another file, or fix the permissions.")


def plain(experiment: Experiment, anomalies: list[str]) -> dict[str, object]:
    cells = [{**result.row(), "relative_time": experiment.relative(result)} for result in experiment.results]
    facts = {"experiment": experiment.id, "holds": not anomalies, "problems": anomalies, "seconds": experiment.seconds}
    return {**facts, "matrix": asdict(experiment.matrix), "cells": cells}


def show(experiment: Experiment, anomalies: list[str]) -> None:
    """Print each cell, then each delivery, then the anomalies."""
    cells = Table(title="the same failures, three deliveries")
    for column in COLUMNS:
        cells.add_column(column, justify="left" if column in ("failure", "delivery", "outcome") else "right")
    width = len(experiment.matrix.modes)
    for number, line in enumerate(rows(experiment)):
        cells.add_row(*map(highlight, COLUMNS, line), end_section=number % width == width - 1)
    console().print(cells)
    modes = Table(title="each delivery, over all its cells")
    for column in SUMMARY_COLUMNS:
        modes.add_column(column, justify="left" if column == "delivery" else "right")
    for line in summary(experiment):
        modes.add_row(*map(highlight, SUMMARY_COLUMNS, line))
    console().print(modes)
    console().print(headline(experiment), markup=False, highlight=False)
    for anomaly in anomalies:
        console().print(f"broken: {anomaly}", markup=False, style="red")


def highlight(column: str, value: str) -> str:
    """Show anomalies in red, giving up in yellow and zeros dimmed."""
    if value == "0":
        return "[dim]0"
    if column in ("doubled", "lost", "out of order"):
        return f"[red]{value}"
    return f"[yellow]{value}" if value == "gave up" else value
