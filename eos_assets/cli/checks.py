"""`eos checks`: evaluate every asset check without a UI, and report the result as exit status."""

import json
from collections.abc import Iterable
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.log_output import stderr_console
from eos_assets.cli.options import json_option, module_option
from eos_assets.cli.progress import fetch_jars
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import choose_pipelines
from eos_assets.platform.settings import Settings

#: By default Dagster logs every event to the console.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@click.command("checks")
@click.argument("pipelines", nargs=-1)
@click.option(
    "--full", is_flag=True, help="Check everything that is retained, not only what was written since the last proof."
)
@module_option
@json_option
def checks_command(pipelines: tuple[str, ...], full: bool, as_json: bool) -> None:
    """Evaluate the asset checks of PIPELINES, or of all, through Dagster; status 1 if one fails or does not run.

    A failed check does not make a run of Dagster fail; this command reads the evaluations.
    """
    settings = Settings.load()
    chosen = choose_pipelines(pipelines, settings.modules)
    fetch_jars(settings)
    with stderr_console().status("Evaluating the checks …"):
        evaluations = evaluate(chosen, full=full)
    if as_json:
        click.echo(json.dumps(evaluations, indent=2))
    else:
        show(evaluations)
    if not evaluations or any(not row["passed"] and row["severity"] == "ERROR" for row in evaluations):
        raise click.exceptions.Exit(1)


def evaluate(pipelines: Iterable[Pipeline], *, full: bool = False) -> list[dict[str, Any]]:
    """Run the checks of each pipeline and return one row per evaluation. An unfinished check counts as failed."""
    import dagster as dg

    from eos_assets.definitions import defs
    from eos_assets.orchestration.checks import AUDIT_CHECK

    evaluations: list[dict[str, Any]] = []
    with dg.DagsterInstance.ephemeral() as instance:
        for name in (pipeline.name for pipeline in pipelines):
            job = defs.resolve_job_def(f"{name}_checks")
            depth = {"config": {"full": full}}
            config = {"ops": {f"{name}_invariants": depth, f"{name}__audit_transactions_{AUDIT_CHECK}": depth}, **QUIET}
            evaluations += rows(
                name, job.execute_in_process(instance=instance, run_config=config, raise_on_error=False)
            )
    return evaluations


def rows(pipeline: str, result: Any) -> list[dict[str, Any]]:
    """The evaluations of one run; a failure of the run itself is one more row."""
    evaluations = [
        {
            "pipeline": pipeline,
            "check": evaluation.check_name,
            "passed": evaluation.passed,
            "severity": evaluation.severity.value,
            "found": evaluation.description,
            "counter_examples": examples(evaluation.metadata.get("counter_examples")),
        }
        for evaluation in result.get_asset_check_evaluations()
    ]
    if not result.success:
        row = {"pipeline": pipeline, "check": "(the run itself)", "passed": False, "severity": "ERROR"}
        evaluations.append({**row, "found": failure(result), "counter_examples": []})
    return evaluations


def examples(table: Any) -> list[str]:
    return [record.data["example"] for record in table.records] if table is not None else []


def failure(result: Any) -> str:
    for event in result.all_events:
        if event.is_step_failure:
            return str(event.event_specific_data.error_display_string).splitlines()[0]
    return "the run failed"


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("pipeline", "check", "", "found", title="asset checks", title_justify="left")
    for row in rows:
        bad = "[red]failed" if row["severity"] == "ERROR" else "[yellow]warning"
        table.add_row(row["pipeline"], row["check"], "[green]passed" if row["passed"] else bad, escape(row["found"]))
    console().print(table)
    for row in rows:
        if not row["passed"]:
            lines = (f"  {example}" for example in row["counter_examples"])
            console().print(f"{row['check']}:", *lines, sep="\n", markup=False)
