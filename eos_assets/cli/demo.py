"""`eos demo`: the main job from beginning to end, on a Kafka and a Spark of its own."""

import os
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

from eos_assets.cli import verify
from eos_assets.cli.console import console
from eos_assets.cli.progress import bar, fetch_jars
from eos_assets.cli.run import show
from eos_assets.cli.servers import interrupt
from eos_assets.exactly_once.failures import Failures
from eos_assets.exactly_once.run import RunOptions, run_pipeline
from eos_assets.exactly_once.verify import Verification, verify_pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets.kafka.topics import create_topics
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.folders import make_folder, require_space
from eos_assets.local.jars import version_of
from eos_assets.pipelines.squares import squares
from eos_assets.settings import Settings

#: Small slices, so that there are enough transactions to fail.
SLICE_RECORDS = 10_000


@click.command("demo")
@click.option("--count", type=click.IntRange(1), default=100_000, show_default=True, help="How many integers.")
@click.option("--failure-probability", type=float, default=0.3, show_default=True, help="Of each transaction.")
@click.option("--seed", type=int, default=7, show_default=True, help="Which transactions fail.")
def demo_command(count: int, failure_probability: float, seed: int) -> None:
    """Fill a topic, square it while transactions fail and a worker is killed, and prove that nothing went wrong.

    Status 0 only if every invariant holds. Nothing of it outlives the command, and a running `eos up` is not touched.
    """
    failures = Failures(failure_probability, seed, failpoint="mid_produce", action="exit", partition=1)
    settings = Settings.load()
    fetch_jars(settings)
    require_space(make_folder(settings.home))
    stderr = Console(stderr=True, highlight=False)
    signal.signal(signal.SIGTERM, interrupt)
    sweep(settings.home)
    with tempfile.TemporaryDirectory(prefix=f"demo-{os.getpid()}-", dir=settings.home) as folder:
        with stderr.status("Starting Kafka …"):
            cluster = KafkaCluster(Path(folder) / "kafka", settings=settings)
            cluster.start()
        try:
            result = run(Connection(cluster.bootstrap_servers), count, failures, stderr)
        finally:
            cluster.close()
    if not result.holds:
        raise click.ClickException("an invariant is broken")


def sweep(home: Path) -> None:
    """Removes what a killed demo left: the folders of processes that are gone."""
    for folder in home.glob("demo-*-*"):
        if not psutil.pid_exists(int(folder.name.split("-")[1])):
            shutil.rmtree(folder, ignore_errors=True)


def run(connection: Connection, count: int, failures: Failures, stderr: Console) -> Verification:
    from eos_assets.resources.spark import SparkResource

    create_topics((squares.source, *squares.own_topics()), connection)
    with bar(f"Filling {squares.source.name}", count) as done:
        filled = fill(connection, squares.source.name, count, progress=done)
    with stderr.status("Starting Spark …") as status:
        spark = SparkResource(address="in-process").spark_session
        status.update("Squaring, with failures on purpose …")
        options = RunOptions(failures=failures, max_attempts=50, say=stderr.print)
        report = run_pipeline(replace(squares, slice_records=SLICE_RECORDS), spark, connection, options)
        status.update("Reading everything back, committed records only …")
        result = verify_pipeline(squares, spark, connection)
        spark.stop()
    table = Table("what", "value", title="eos demo", title_justify="left")
    table.add_row("broker", f"Apache Kafka {version_of('kafka_2.13')}, KRaft, {connection.bootstrap_servers}")
    topics = (squares.source, *squares.sinks)
    table.add_row("topics", ", ".join(f"{topic.name} ({topic.partitions} partitions)" for topic in topics))
    table.add_row("records filled", f"{filled.written:,} at {filled.records_per_second:,.0f} records/s")
    table.add_row("failures on purpose", f"each transaction with probability {failures.probability}; one worker killed")
    table.add_row("records read back committed", f"{result.figures['sink_records']:,}")
    console().print(table)
    show(report)
    verify.show(result)
    if not report.complete or result.figures["sink_records"] != count:
        raise click.ClickException(f"{result.figures['sink_records']} of {count} records are in the sink")
    return result
