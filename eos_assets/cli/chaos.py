"""`eos chaos`: a soak of a pipeline under random faults, on servers of its own."""

import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from eos_assets.chaos.fault_plan import KINDS
from eos_assets.chaos.report import HOLDS, counts, html, silences
from eos_assets.chaos.result import SoakOptions, SoakResult
from eos_assets.chaos.sampler import Repeated
from eos_assets.chaos.servers import SoakServers
from eos_assets.chaos.soak import Soak, SoakStatus
from eos_assets.cli import verify
from eos_assets.cli.console import console
from eos_assets.cli.demo import remove_leftovers
from eos_assets.cli.experiment import Several, check_writable
from eos_assets.cli.options import json_option, module_option
from eos_assets.cli.progress import fetch_jars
from eos_assets.cli.up import interrupt
from eos_assets.declare.registry import find_pipeline
from eos_assets.errors import EosError
from eos_assets.local.disk import require_space
from eos_assets.platform.folders import make_folder
from eos_assets.platform.settings import Settings

#: How often a line is printed where there is no terminal.
LINE_SECONDS = 10.0
MOST_RECORDS = 100_000


@click.command("chaos")
@click.option("--minutes", type=float, default=2.0, show_default=True, help="How long records are loaded.")
@click.option("--rate", type=float, default=1000.0, show_default=True, help="Records loaded per second.")
@click.option("--pipeline", default="squares", show_default=True, help="The pipeline to run.")
@module_option
@click.option(
    "--faults", "kinds", type=Several(click.Choice(list(KINDS))), help="The kinds of faults. Default: all of them."
)
@click.option("--every", type=float, default=10.0, show_default=True, help="Seconds between two faults, about.")
@click.option("--brokers", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Number of brokers.")
@click.option("--seed", type=int, help="Selects the faults, their order and their times. Default: a random one.")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the report.")
@json_option
def chaos_command(
    minutes: float,
    rate: float,
    pipeline: str,
    kinds: tuple[str, ...] | None,
    every: float,
    brokers: str,
    seed: int | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Load integers and run a pipeline while brokers, workers and runs are killed, paused and doubled; then heal,
    drain, evaluate every invariant, and look for anomalies in what all clients have seen.

    It starts a Kafka and a Spark of its own, which it stops at the end, and does not affect a running `eos up`. A seed
    always gives the same faults. Status 1 if anything is wrong; then the folder with all logs is kept.
    """
    options = choose(minutes, rate, pipeline, kinds, every, int(brokers), seed)
    settings = Settings.load()
    chosen = find_pipeline(pipeline, settings.modules)
    folder = make_folder(settings.home / "chaos")
    page = page or folder / f"chaos-{options.seed}.html"
    check_writable(page)
    fetch_jars(settings)
    require_space(folder)
    remove_leftovers(folder)
    signal.signal(signal.SIGTERM, interrupt)
    stderr = Console(stderr=True, highlight=False)
    stderr.print(f"Seed {options.seed}: a fault about every {options.every:g} s for {minutes:g} min.")
    own = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder))
    with SoakServers(own, settings, pipeline, options.brokers) as servers:
        soak = Soak(options, chosen, servers)
        with shown(soak, stderr):
            result = soak.run()
    page.write_text(html(result))
    if as_json:
        click.echo(json.dumps({**result.row(), "report": str(page)}, indent=2))
    else:
        show(result, page)
    if result.problems:
        stderr.print(f"The logs of all servers are in {own}.")
        raise click.exceptions.Exit(1)
    shutil.rmtree(own, ignore_errors=True)


def choose(
    minutes: float,
    rate: float,
    pipeline: str,
    kinds: tuple[str, ...] | None,
    every: float,
    brokers: int,
    seed: int | None,
) -> SoakOptions:
    """The options of a soak, refused where they make no sense."""
    for option, value in (("--minutes", minutes), ("--rate", rate), ("--every", every)):
        if not (isfinite(value) and value > 0):
            raise EosError(f"{option} {value:g} is not valid.", "Use a number above 0.")
    if every > minutes * 60:
        raise EosError(
            f"--every {every:g} with --minutes {minutes:g} is not valid: no fault would be injected.",
            f"Use at most --every {minutes * 60:g}.",
        )
    if rate > MOST_RECORDS:
        raise EosError(f"--rate {rate:g} is not valid.", f"Use at most {MOST_RECORDS}: a soak is not a benchmark.")
    chosen = tuple(dict.fromkeys(kinds or KINDS))
    return SoakOptions(
        pipeline, minutes * 60, rate, random.randrange(2**31) if seed is None else seed, chosen, every, brokers
    )


@contextmanager
def shown(soak: Soak, stderr: Console) -> Iterator[None]:
    """Show a soak while it runs: a table that changes or, where there is no terminal, a line now and then."""
    if stderr.is_terminal:
        with Live(get_renderable=lambda: table(cells(soak.status())), console=stderr, refresh_per_second=2):
            yield
        return
    lines = Repeated("chaos-lines", lambda: print_line(cells(soak.status()), stderr), LINE_SECONDS)
    lines.start()
    try:
        yield
    finally:
        lines.end()


def cells(status: SoakStatus) -> dict[str, str]:
    """What is shown of a soak while it runs."""
    return {
        "elapsed": f"{status.seconds:.0f} s",
        "activity": status.activity,
        "faults": f"{status.faults}",
        "loaded": f"{status.loaded:,}",
        "committed": f"{status.committed:,}",
        "lag": f"{status.lag:,}",
        "last fault": status.last_fault,
    }


def table(shown_cells: dict[str, str]) -> Table:
    grid = Table(*shown_cells)
    grid.add_row(*shown_cells.values())
    return grid


def print_line(shown_cells: dict[str, str], stderr: Console) -> None:
    text = ", ".join(f"{name} {value}" for name, value in shown_cells.items())
    stderr.print(text, markup=False, soft_wrap=True)


def show(result: SoakResult, page: Path) -> None:
    """Print what was done and what was found."""
    struck = ", ".join(f"{count} {kind}" for kind, count in sorted(result.struck.items()))
    summary = Table("what", "value", title=f"eos chaos, seed {result.options.seed}", title_justify="left")
    summary.add_row("faults", f"{sum(result.struck.values())}: {struck}")
    for name, value in counts(result):
        summary.add_row(name, value)
    for command, seconds, _ in silences(result):
        summary.add_row(f"longest silence of {command}", f"{seconds} s")
    console().print(summary)
    invariants = Table("invariant", "", "found")
    for finding in result.findings:
        invariants.add_row(finding.name, verify.mark(finding), finding.detail)
    console().print(invariants)
    for problem in result.problems:
        console().print(problem, markup=False, style="red")
    if not result.problems:
        console().print(HOLDS)
    click.echo(f"Report: {page}")
