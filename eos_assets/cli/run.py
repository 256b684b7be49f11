"""`eos run`: run a pipeline, with a bar for each source partition."""

import json
import threading

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.log_output import log_messages, stderr_console
from eos_assets.cli.options import EosCommand, ExperimentOption, json_option, mode_option, pipeline_options
from eos_assets.cli.target import prepare
from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.experiment.baselines import delivery_of
from eos_assets.experiment.faults import KINDS, Faults
from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import LedgerEntry, short_run_id
from eos_assets.platform.settings import Settings
from eos_assets.run.plan import make_plan
from eos_assets.run.report import RunReport
from eos_assets.run.run import RunOptions, run_pipeline

#: How long the bars wait for the last positions.
LAST_POSITIONS_SECONDS = 5.0
COLOURS = {"committed": "green", "already_done": "green", "fenced": "yellow", "stale": "yellow"}


@click.command("run", cls=EosCommand)
@pipeline_options
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this partition; repeatable."
)
@click.option("--max-records", type=click.IntRange(1), help="At most this number of offsets of each partition.")
@click.option(
    "--max-attempts", type=click.IntRange(1), default=20, show_default=True, help="Spark jobs before giving up."
)
@json_option
@mode_option
@click.option(
    "--failure-probability",
    cls=ExperimentOption,
    type=float,
    default=0.0,
    help="Fail transactions on purpose: 0 to 1.",
)
@click.option(
    "--failure-kind",
    cls=ExperimentOption,
    type=click.Choice(KINDS),
    default=KINDS[0],
    show_default=True,
    help="How they fail: an error before the commit or right after it, or a killed worker.",
)
@click.option("--seed", cls=ExperimentOption, type=int, default=0, help="Which transactions fail on purpose.")
def run_command(
    pipeline: str,
    mode: str,
    as_json: bool,
    partitions: tuple[int, ...],
    max_records: int | None,
    max_attempts: int,
    failure_probability: float,
    failure_kind: str,
    seed: int,
) -> None:
    """Bring PIPELINE up to the last stable offset of its source: one transaction per partition and batch.

    Status 0 if every chosen partition reached it. Running it again, or twice at once, does no harm.
    """
    faults = Faults(probability=failure_probability, seed=seed, kind=failure_kind)  # refuses an invalid probability
    settings, chosen, connection = prepare(pipeline)
    options = RunOptions(
        mode=Mode(mode),
        delivery=delivery_of(Mode(mode)),
        partitions=partitions or None,
        max_records=max_records,
        max_attempts=max_attempts,
        faults=faults,
        lake=settings.lake if chosen.stateful else None,
        accepted_spark=settings.accept_spark,
    )
    report = run_with_progress(settings, chosen, connection, options)
    if as_json:
        rows = [outcome.row() for outcome in report.summary()]
        facts = {"run": report.run, "complete": report.complete, "attempts": report.attempts, "seconds": report.seconds}
        commits = {partition: last_commit(entry) for partition, entry in sorted(report.last_entries.items())}
        details = {"failures": report.failures, "partitions": rows, "last_commits": commits}
        details |= {"held_back": report.held_back}
        click.echo(json.dumps({**facts, **details}, indent=2))
    else:
        show(report)
    if not report.complete:
        raise click.exceptions.Exit(1)


def last_commit(entry: LedgerEntry) -> dict[str, object]:
    """The last commit of a source partition: its run, its time, and the position after it."""
    return {"run": entry.run, "ended_ms": entry.ended_ms, "position": entry.next}


def run_with_progress(settings: Settings, pipeline: Pipeline, connection: Connection, options: RunOptions) -> RunReport:
    """Run, with a bar for each partition that follows the ledger."""
    from eos_assets.platform.spark_session import start_session

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr_console()) as progress, log_messages(progress.console):
        ended = threading.Event()
        watcher = threading.Thread(
            target=follow_positions, args=(pipeline, connection, options, progress, ended), daemon=True
        )
        watcher.start()
        try:
            return run_pipeline(pipeline, start_session(settings), connection, options)
        finally:
            ended.set()
            watcher.join(LAST_POSITIONS_SECONDS)


def follow_positions(
    pipeline: Pipeline, connection: Connection, options: RunOptions, progress: Progress, ended: threading.Event
) -> None:
    """Read the positions once a second. An error here must not disturb the run: what cannot be read is not shown."""
    bars: dict[int, tuple[TaskID, int]] = {}
    while True:
        last = ended.wait(1.0)
        try:
            plans = make_plan(
                pipeline, connection, mode=options.mode, partitions=options.partitions, max_records=options.max_records
            )
        except Exception:
            plans = []
        for plan in plans:
            if plan.partition not in bars and plan.range.size:
                task = progress.add_task(f"{pipeline.source.name}/{plan.partition}", total=plan.range.size)
                bars[plan.partition] = (task, plan.position)
            if plan.partition in bars:
                task, start = bars[plan.partition]
                progress.update(task, completed=plan.position - start)
        if last:
            for task, _ in bars.values():  # a bar without progress has nothing to add to the error
                progress.update(task, visible=progress.tasks[task].completed > 0)
            return


def show(report: RunReport) -> None:
    rows = report.summary()
    table = Table(title=f"run {short_run_id(report.run)} of {report.pipeline}, {report.mode}")
    columns = ("partition", "range", "in", "out", "skipped", "dead", "transactions", "commit ms", "attempts", "outcome")
    for column in columns:
        table.add_column(column, justify="right")
    for o in rows:
        colour = COLOURS.get(o.outcome, "red")
        counts = [f"{n:,}" for n in (o.records_in, o.records_out, o.skipped, o.dead, o.transactions)]
        attempts = f"{report.attempts}·{o.task_attempt + 1}"
        table.add_row(
            str(o.partition),
            f"[{o.start}, {o.next})",
            *counts,
            f"{o.commit_ms:.0f}",
            attempts,
            f"[{colour}]{o.outcome}",
        )
    if rows:
        console().print(table)
    else:
        console().print(f"{report.pipeline}: {report.nothing_new()}", markup=False, highlight=False)
    for text in report.held_back.values() if rows else ():
        console().print(text, markup=False, highlight=False)
    for o in rows:
        if o.reason:
            console().print(f"partition {o.partition}: {o.reason}", markup=False)
    written = sum(o.records_in for o in rows)
    ending = "complete" if report.complete else f"gave up at attempt {report.attempts}"
    console().print(f"{ending}: {written:,} record{'s' * (written != 1)} in {report.seconds:.1f} s", markup=False)
    if not report.complete and report.failures:
        console().print(f"last failure: {report.failures[-1]}", markup=False)
