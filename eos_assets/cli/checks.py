"""`eos checks`: every asset check, headless, with a status that tells."""

import json
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import json_option
from eos_assets.cli.progress import fetch_jars
from eos_assets.platform.settings import Settings

#: Dagster logs every event to the console unless told otherwise.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@click.command("checks")
@click.argument("pipelines", nargs=-1)
@click.option("--full", is_flag=True, help="Look at all that is retained, not only at what came since the last proof.")
@json_option
def checks_command(pipelines: tuple[str, ...], full: bool, as_json: bool) -> None:
    """Evaluate the asset checks of PIPELINES, or of all, through Dagster; status 1 if one fails or does not run.

    Dagster leaves a run green although a check in it failed; this command reads the evaluations.
    """
    settings = Settings.load()
    fetch_jars(settings)
    with Console(stderr=True).status("Evaluating the checks …"):
        found = evaluate(pipelines, full=full)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        show(found)
    if not found or any(not row["passed"] and row["severity"] == "ERROR" for row in found):
        raise click.exceptions.Exit(1)


def evaluate(pipelines: tuple[str, ...], *, full: bool = False) -> list[dict[str, Any]]:
    """One row per evaluation. A check that did not come to an end is one that failed."""
    import dagster as dg

    from eos_assets.declare.registry import find_pipeline, find_pipelines
    from eos_assets.definitions import defs
    from eos_assets.orchestration.checks import AUDIT_CHECK

    chosen = [find_pipeline(name).name for name in pipelines] or list(find_pipelines())
    found: list[dict[str, Any]] = []
    with dg.DagsterInstance.ephemeral() as instance:
        for name in chosen:
            job = defs.resolve_job_def(f"{name}_checks")
            depth = {"config": {"full": full}}
            config = {"ops": {f"{name}_invariants": depth, f"{name}__audit_transactions_{AUDIT_CHECK}": depth}, **QUIET}
            found += rows(name, job.execute_in_process(instance=instance, run_config=config, raise_on_error=False))
    return found


def rows(pipeline: str, result: Any) -> list[dict[str, Any]]:
    """The evaluations of one run; one that failed is a row of its own."""
    found = [
        {
            "pipeline": pipeline,
            "check": evaluation.check_name,
            "passed": evaluation.passed,
            "severity": evaluation.severity.value,
            "found": evaluation.description,
            "counter_examples": told(evaluation.metadata.get("counter_examples")),
        }
        for evaluation in result.get_asset_check_evaluations()
    ]
    if not result.success:
        about = {"pipeline": pipeline, "check": "(the run itself)", "passed": False, "severity": "ERROR"}
        found.append({**about, "found": failure(result), "counter_examples": []})
    return found


def told(table: Any) -> list[str]:
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
            examples = (f"  {example}" for example in row["counter_examples"])
            console().print(f"{row['check']}:", *examples, sep="\n", markup=False)
