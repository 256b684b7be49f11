"""`eos trace`: where a record came from, or what became of it."""

import click
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.options import module_option
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import choose_pipelines
from eos_assets.errors import EosError
from eos_assets.log.ledger import Amendment, short_run_id, utc_time
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.topics import existing_topics
from eos_assets.verify.trace import Link, explain_missing_origin, explain_missing_outcome, origin_of, outcome_of


@click.command("trace")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@click.option("--source", "from_source", is_flag=True, help="TOPIC is a source: show what became of its record.")
@module_option
def trace_command(topic: str, partition: int, offset: int, from_source: bool) -> None:
    """Show where the record at OFFSET of TOPIC/PARTITION came from; with --source, what became of it."""
    settings = Settings.load()
    pipelines = pipelines_of(topic, from_source, settings.modules)
    connection = connect(settings)
    partitions = existing_topics(pipelines[0], connection, [topic])[topic].partitions
    if partition not in partitions:
        raise EosError(f"{topic} has no partition {partition}.", f"Choose among its {len(partitions)} partitions.")
    links: list[Link] = []
    for pipeline in pipelines:
        if from_source:
            links += outcome_of(pipeline, connection, partition, offset)
        elif origin := origin_of(pipeline, connection, topic, partition, offset):
            links.append(origin)
    if links:
        show(links)
        return
    if from_source:
        reason = "; ".join(f"{p.name}: {explain_missing_outcome(p, connection, partition, offset)}" for p in pipelines)
    else:
        reason = explain_missing_origin(connection, topic, partition, offset)
    console().print(f"{topic}/{partition}/{offset}: {reason}", markup=False)
    raise click.exceptions.Exit(0 if from_source else 1)


def show(links: list[Link]) -> None:
    table = Table("source record", "became", "sequence", "transaction", "run", "attempt", "committed at", "code")
    for link in links:
        table.add_row(link.source, link.became, str(link.sequence), *transaction(link))
    console().print(table)


def transaction(link: Link) -> tuple[str, ...]:
    entry = link.entry
    if entry is None:
        return ("?", "?", "?", "?", "?")
    attempt = f"{entry.run_attempt}·{entry.task_attempt + 1}"
    return (
        f"{entry.kind} {entry.number}" if isinstance(entry, Amendment) else f"[{entry.start}, {entry.next})",
        short_run_id(entry.run),
        attempt,
        utc_time(entry.ended_ms),
        entry.code_version,
    )


def pipelines_of(topic: str, from_source: bool, modules: tuple[str, ...]) -> list[Pipeline]:
    """The pipelines that read this topic, or write it."""
    by_topic: dict[str, list[Pipeline]] = {}
    for pipeline in choose_pipelines((), modules):
        written = [*(sink.name for sink in pipeline.sinks), pipeline.names().dead_letters]
        for name in [pipeline.source.name] if from_source else written:
            by_topic.setdefault(name, []).append(pipeline)
    if topic not in by_topic:
        raise EosError(
            f"No pipeline {'reads' if from_source else 'writes'} {topic}.",
            f"Use one of {', '.join(by_topic)}. `eos trace TOPIC PARTITION OFFSET` takes a sink, with --source it"
            " takes a source.",
        )
    return by_topic[topic]
