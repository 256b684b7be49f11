"""Runs the benchmarks: `python -m benchmarks`."""

from collections.abc import Callable
from typing import Any

import click
from rich.console import Console

from benchmarks import page
from benchmarks.contenders import DESCRIPTIONS, EXACTLY_ONCE, OURS
from benchmarks.increment import measure_increment
from benchmarks.plan import SECTIONS, Plan, plan_of
from benchmarks.results import Results
from benchmarks.scaling import measure_scaling
from benchmarks.stage import Stage
from benchmarks.tables import price_table
from benchmarks.throughput import measure_throughput
from benchmarks.transactions import measure_transactions
from benchmarks.visibility import measure_visibility
from benchmarks.workload import WORKLOADS
from eos_assets.errors import EosError
from eos_assets.platform.settings import Settings

#: The columns of a table where there is no terminal.
LOG_WIDTH = 160


@click.command()
@click.option(
    "--section", "sections", multiple=True, type=click.Choice(SECTIONS), help="Measure only this; repeatable."
)
@click.option("--workload", "workloads", multiple=True, type=click.Choice(list(WORKLOADS)), help="Only this workload.")
@click.option("--only", "contenders", multiple=True, type=click.Choice(list(DESCRIPTIONS)), help="Only this contender.")
@click.option("--records", type=click.IntRange(1), help="The records of a run, in every section.")
@click.option("--rounds", type=click.IntRange(1), help="The rounds that count, in every section.")
@click.option("--warm-ups", type=click.IntRange(0), help="The rounds before them.")
@click.option("--quick", is_flag=True, help="One workload with fewer records and rounds.")
@click.option("--write/--no-write", default=None, help="Write results and page; default: if every contender took part.")
def main(write: bool | None, **options: Any) -> None:
    """Measure this project beside other systems on one broker, and write docs/performance.md."""
    plan = plan_of(**options)
    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=LOG_WIDTH)
    try:
        results = measure(plan, console)
    except EosError as error:
        raise click.ClickException(str(error)) from error
    for name, reason in results.left_out.items():
        console.print(f"{DESCRIPTIONS[name].title} did not take part: {reason}")
    if plan.complete if write is None else write:
        results.write()
        page.write_page(Results.load())
        console.print(f"Written: {page.PAGE}")


def measure(plan: Plan, console: Console) -> Results:
    """Measure the sections of a plan on one stage."""
    results = Results()
    few = {"warm_ups": plan.warm_ups, "rounds": plan.few_rounds}
    names = [name for name in plan.contenders if "throughput" in plan.sections or name in OURS]
    exact = [name for name in plan.contenders if name in EXACTLY_ONCE]
    with Stage(Settings.load()) as stage:

        def throughput() -> None:
            results.throughput = measure_throughput(
                stage, plan.records, names, warm_ups=plan.warm_ups, rounds=plan.rounds, console=console
            )
            price = price_table(results.throughput)
            if price.rows:
                console.print(price.rich())

        def visibility() -> None:
            results.visibility = measure_visibility(stage, plan.visibility_records, exact, **few, console=console)

        def scaling() -> None:
            results.scaling = measure_scaling(stage, plan.scaling, **few, console=console)

        def increment() -> None:
            results.increment = measure_increment(
                stage, plan.increment_records, warm_ups=plan.warm_ups, rounds=plan.increment_rounds, console=console
            )

        def transactions() -> None:
            results.transactions = measure_transactions(stage, *plan.transaction_records, **few, console=console)

        steps: dict[str, Callable[[], None]] = {
            "throughput": throughput,
            "price": throughput,
            "visibility": visibility,
            "scaling": scaling,
            "increment": increment,
            "transactions": transactions,
        }
        for step in dict.fromkeys(steps[section] for section in plan.sections):
            step()
        results.left_out = dict(stage.contenders.left_out)
    return results


if __name__ == "__main__":
    main()
