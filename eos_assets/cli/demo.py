"""`eos demo`: the main job from beginning to end, on a Kafka and a Spark of its own."""

import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from eos_assets.cli.console import console
from eos_assets.cli.progress import bar, fetch_jars
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets.kafka.topics import create_topics
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.folders import make_folder, require_space
from eos_assets.local.jars import version_of
from eos_assets.pipelines.squares import squares
from eos_assets.settings import Settings


@click.command("demo")
@click.option("--count", type=click.IntRange(1), default=100_000, show_default=True, help="How many integers.")
def demo_command(count: int) -> None:
    """Start a Kafka and a Spark, fill a topic, read it back committed; status 0 only if every record is there once.

    Nothing of it outlives the command, and a running `eos up` is not touched.
    """
    settings = Settings.load()
    fetch_jars(settings)
    require_space(make_folder(settings.home))
    stderr = Console(stderr=True, highlight=False)
    with tempfile.TemporaryDirectory(prefix="demo-", dir=settings.home) as folder:
        with stderr.status("Starting Kafka …"):
            cluster = KafkaCluster(Path(folder) / "kafka", settings=settings)
            cluster.start()
        try:
            run(Connection(cluster.bootstrap_servers), count, stderr)
        finally:
            cluster.close()


def run(connection: Connection, count: int, stderr: Console) -> None:
    from pyspark.sql import functions as f

    from eos_assets.resources.spark import SparkResource

    create_topics((squares.source, *squares.own_topics()), connection)
    with bar(f"Filling {squares.source.name}", count) as done:
        filled = fill(connection, squares.source.name, count, progress=done)
    with stderr.status("Reading back with Spark …"):
        spark = SparkResource(address="in-process").spark_session
        records = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", connection.bootstrap_servers)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", squares.source.name)
            .load()
        )
        number = f.col("value").cast("string").cast("long")
        read, distinct, low, high = records.agg(
            f.count("*"), f.count_distinct(number), f.min(number), f.max(number)
        ).first()
        spark.stop()
    table = Table("what", "value", title="eos demo", title_justify="left")
    table.add_row("broker", f"Apache Kafka {version_of('kafka_2.13')}, KRaft, {connection.bootstrap_servers}")
    table.add_row(
        "topics",
        ", ".join(f"{topic.name} ({topic.partitions} partitions)" for topic in (squares.source, *squares.sinks)),
    )
    table.add_row("records filled", f"{filled.written:,} at {filled.records_per_second:,.0f} records/s")
    table.add_row("records read back committed", f"{read:,}, {distinct:,} of them distinct, from {low} to {high}")
    console().print(table)
    if not read == distinct == count or (low, high) != (0, count - 1):
        raise click.ClickException("the records read back are not the records filled")
