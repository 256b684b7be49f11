"""`eos fill`: write integers into a topic."""

import math

import click

from eos_assets.cli.progress import bar
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings

DEFAULT_PARTITIONS = 3


def require_finite(ctx: click.Context, parameter: click.Parameter, rate: float | None) -> float | None:
    if rate is not None and not math.isfinite(rate):
        raise click.BadParameter(f"{rate} is not a number of records per second.")
    return rate


@click.command("fill")
@click.argument("topic")
@click.option("--count", type=click.IntRange(1), required=True, help="The number of integers to add.")
@click.option("--partitions", type=click.IntRange(1), help="Partitions of the topic, if it is created. Default: 3.")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), callback=require_finite, help="The most records per second."
)
def fill_command(topic: str, count: int, partitions: int | None, rate: float | None) -> None:
    """Write COUNT integers into TOPIC, key and value both the decimal string, each exactly once and in order.

    An idempotent producer (acks=all) writes them to the partitions a Java client would choose. A further fill
    continues where the last one ended, and completes an interrupted one.
    """
    connection = connect(Settings.load())
    existing = connection.metadata().topics.get(topic)
    if existing is None:
        create_topics([Topic(topic, partitions=partitions or DEFAULT_PARTITIONS)], connection)
        click.echo(f"Created topic {topic} with {partitions or DEFAULT_PARTITIONS} partitions.")
    elif partitions is not None and len(existing.partitions) != partitions:
        raise EosError(
            f"Topic {topic} has {len(existing.partitions)} partitions, not {partitions}; it was left unchanged.",
            f"Use --partitions {len(existing.partitions)}, or fill another topic.",
        )
    with bar(f"Filling {topic}", count) as done:
        filled = fill(connection, topic, count, rate=rate, progress=done)
    if filled.completed:
        click.echo(f"An earlier fill was interrupted: completed {filled.completed} integers below {filled.first}.")
    click.echo(
        f"Wrote {filled.written} records to {topic}: the integers {filled.first} to {filled.next - 1}, "
        f"in {filled.seconds:.2f} s, {filled.records_per_second:,.0f} records/s."
    )
