"""`eos preview` and `eos trace`: looking at single records."""

import time

import click
from rich.markup import escape
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import pipeline_options
from eos_assets.cli.progress import fetch_jars
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import find_pipelines
from eos_assets.errors import EosError
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings
from eos_assets.run.plan import existing_topics
from eos_assets.run.preview import RESULTS, preview
from eos_assets.verify.trace import Link, origin_of, outcome_of, unnamed, without_output


@click.command("preview")
@pipeline_options
@click.option("--records", "count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many.")
def preview_command(pipeline: str, modules: tuple[str, ...], count: int) -> None:
    """Show some source records of PIPELINE and what the transform makes of them. Writes nothing."""
    from eos_assets.declare.registry import find_pipeline
    from eos_assets.orchestration.resources.spark import SparkResource

    settings = Settings.load()
    chosen = find_pipeline(pipeline, modules)
    connection = connect(settings)
    existing_topics(chosen, connection, [chosen.source.name])
    fetch_jars(settings)
    table = Table("source", "key", "value", "result", title=f"preview of {chosen.name}; nothing was written")
    for found in preview(chosen, SparkResource().spark_session, connection, count):
        at = f"{found.source.origin.partition}/{found.source.origin.offset}"
        lines = [told(row.asDict()) for row in found.results[: RESULTS - 1]]
        lines += ["…"] * (len(found.results) == RESULTS)
        result = "\n".join(lines) or "(no row)"
        table.add_row(at, *map(escape, (text(found.source.key), text(found.source.value), result)))
    console().print(table)


def told(row: dict[str, object]) -> str:
    if row.get("error") is not None:
        return f"dead letter: {row['error']}"
    if row.get("skip"):
        return "skipped"
    return "  ".join(f"{name}={text(value)}" for name, value in row.items() if name not in ("origin", "error", "skip"))


def text(value: object) -> str:
    """Bytes as text where they are text; long ones cut."""
    if value is None:
        return "null"
    shown = bytes(value).decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


@click.command("trace")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@click.option("--source", "from_source", is_flag=True, help="TOPIC is a source: show what became of its record.")
@click.option("--module", "modules", multiple=True, help="Also look for pipelines in this module.")
def trace_command(topic: str, partition: int, offset: int, from_source: bool, modules: tuple[str, ...]) -> None:
    """Show where the record at OFFSET of TOPIC/PARTITION came from; with --source, what became of it."""
    asked = pipelines_of(topic, from_source, modules)
    connection = connect(Settings.load())
    partitions = existing_topics(asked[0], connection, [topic])[topic].partitions
    if partition not in partitions:
        raise EosError(f"{topic} has no partition {partition}.", f"It has {len(partitions)}.")
    found: list[Link] = []
    for pipeline in asked:
        if from_source:
            found += outcome_of(pipeline, connection, partition, offset)
        else:
            origin = origin_of(pipeline, connection, topic, partition, offset)
            found += [origin] if origin else []
    if not found:
        if from_source:
            what = "; ".join(f"{p.name}: {without_output(p, connection, partition, offset)}" for p in asked)
        else:
            what = unnamed(connection, topic, partition, offset)
        console().print(f"{topic}/{partition}/{offset}: {what}", markup=False)
        raise click.exceptions.Exit(0 if from_source else 1)
    table = Table("source record", "became", "sequence", "transaction", "run", "attempt", "committed at", "code")
    for link in found:
        table.add_row(link.source, link.became, str(link.sequence), *transaction(link))
    console().print(table)


def transaction(link: Link) -> tuple[str, ...]:
    entry = link.entry
    if entry is None:
        return ("?", "?", "?", "?", "?")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(entry.ended_ms / 1000))
    attempt = f"{entry.run_attempt}·{entry.task_attempt + 1}"
    return f"[{entry.start}, {entry.next})", entry.run, attempt, when, entry.code_version


def pipelines_of(topic: str, from_source: bool, modules: tuple[str, ...]) -> list[Pipeline]:
    """The pipelines that read this topic, or write it."""
    found = []
    for pipeline in find_pipelines(modules).values():
        written = {sink.name for sink in pipeline.sinks} | {pipeline.names().dead_letters}
        if topic == pipeline.source.name if from_source else topic in written:
            found.append(pipeline)
    if not found:
        raise EosError(
            f"No pipeline {'reads' if from_source else 'writes'} {topic}.",
            "`eos trace TOPIC PARTITION OFFSET` takes a sink, with --source it takes a source.",
        )
    return found
