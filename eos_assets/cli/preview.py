"""`eos preview`: some source records of a pipeline, and what its transform returns for them."""

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import pipeline_options
from eos_assets.cli.progress import fetch_jars
from eos_assets.declare.registry import find_pipeline
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.topics import existing_topics
from eos_assets.run.preview import RESULTS, preview

#: Longer values are cut.
SHOWN_CHARACTERS = 60


@click.command("preview")
@pipeline_options
@click.option("--records", "count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many.")
def preview_command(pipeline: str, count: int) -> None:
    """Show some source records of PIPELINE and what the transform makes of them. Writes nothing."""
    from eos_assets.platform.spark_session import start_session

    settings = Settings.load()
    chosen = find_pipeline(pipeline, settings.modules)
    connection = connect(settings)
    existing_topics(chosen, connection, [chosen.source.name])
    fetch_jars(settings)
    table = Table("source", "key", "value", "result", title=f"preview of {chosen.name}; nothing was written")
    for record in preview(chosen, start_session(settings), connection, count):
        place = f"{record.source.origin.partition}/{record.source.origin.offset}"
        lines = [describe(row.asDict()) for row in record.results[: RESULTS - 1]]
        lines += ["…"] * (len(record.results) == RESULTS)
        result = "\n".join(lines) or "(no row)"
        table.add_row(place, *map(escape, (text(record.source.key), text(record.source.value), result)))
    console().print(table)


def describe(row: dict[str, object]) -> str:
    """One result row: a dead letter, a skip, or key, value and what else it gives."""
    if row.get("error") is not None:
        return f"dead letter: {row['error']}"
    if row.get("skip"):
        return "skipped"
    shown = {name: value for name, value in row.items() if name not in ("origin", "error", "skip")}
    return "  ".join(
        f"{name}={text(value)}" for name, value in shown.items() if value is not None or name in ("key", "value")
    )


def text(value: object) -> str:
    """A value as text, shortened if it is long."""
    if value is None:
        return "null"
    shown = bytes(value).decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
    return shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 3]}…"
