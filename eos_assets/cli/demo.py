"""`eos demo`: the main job from beginning to end, on a Kafka and a Spark of its own."""

import os
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import psutil
from rich.console import Console
from rich.table import Table

from eos_assets.cli import checks
from eos_assets.cli.console import console
from eos_assets.cli.progress import bar, fetch_jars
from eos_assets.cli.servers import interrupt
from eos_assets.exactly_once.failures import Failures
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets.kafka.tail import stream
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

    All of it as Dagster materializations, with their checks and audit tables. Status 0 only if every check passed.
    Nothing of it outlives the command, and a running `eos up` is not touched.
    """
    Failures(failure_probability, seed)  # refuses a probability that does not exist before anything starts
    config: dict[str, object] = {
        "failure_probability": failure_probability,
        "seed": seed,
        "kill_partition": 1,
        "max_attempts": 50,
    }
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
            connection = Connection(cluster.bootstrap_servers)
            proven = run(connection, str(Path(folder) / "lake"), count, config, stderr)
        finally:
            cluster.close()
    if not proven:
        raise click.ClickException("not every check passed, or records are missing")


def sweep(home: Path) -> None:
    """Removes what a killed demo left: the folders of processes that are gone."""
    for folder in home.glob("demo-*-*"):
        if not psutil.pid_exists(int(folder.name.split("-")[1])):
            shutil.rmtree(folder, ignore_errors=True)


def run(connection: Connection, lake: str, count: int, config: dict[str, object], stderr: Console) -> bool:
    """Fill, materialize every partition, check, audit: the same objects that the Dagster UI shows."""
    import dagster as dg

    from eos_assets.defs.partitions import add_missing, range_tags
    from eos_assets.defs.pipeline import pipeline_definitions
    from eos_assets.resources.kafka import KafkaResource
    from eos_assets.resources.lake import LakeResource
    from eos_assets.resources.spark import SparkResource

    pipeline = replace(squares, slice_records=SLICE_RECORDS)
    create_topics((pipeline.source, *pipeline.own_topics()), connection)
    with bar(f"Filling {pipeline.source.name}", count) as done:
        filled = fill(connection, pipeline.source.name, count, progress=done)
    spark = SparkResource(address="in-process")
    resources = {
        "kafka": KafkaResource(bootstrap_servers=connection.bootstrap_servers),
        "spark": spark,
        "lake": LakeResource(path=lake),
    }
    definitions = dg.Definitions.merge(pipeline_definitions([pipeline]), dg.Definitions(resources=resources))
    with dg.DagsterInstance.ephemeral() as instance, stderr.status("Materializing, with failures on purpose …"):
        add_missing(instance, pipeline.source.name, connection)
        result = definitions.resolve_job_def(f"{pipeline.name}_job").execute_in_process(
            instance=instance,
            run_config={"ops": {pipeline.name: {"config": config}}, **checks.QUIET},
            tags=range_tags(0, pipeline.source.partitions - 1),
            raise_on_error=False,
        )
    committed = read_back(connection, stderr)
    table = Table("what", "value", title="eos demo", title_justify="left")
    table.add_row("broker", f"Apache Kafka {version_of('kafka_2.13')}, KRaft, {connection.bootstrap_servers}")
    topics = (pipeline.source, *pipeline.sinks)
    table.add_row("topics", ", ".join(f"{topic.name} ({topic.partitions} partitions)" for topic in topics))
    table.add_row("records filled", f"{filled.written:,} at {filled.records_per_second:,.0f} records/s")
    killed = f"each transaction with probability {config['failure_probability']}; one worker killed"
    table.add_row("failures on purpose", killed)
    table.add_row("records read back committed", f"{committed:,}")
    console().print(table)
    show_materializations(result, pipeline.sinks[0].name)
    rows = checks.rows(pipeline.name, result)
    checks.show(rows)
    return result.success and committed == count and all(row["passed"] for row in rows)


def read_back(connection: Connection, stderr: Console) -> int:
    """Counts the committed records of the sink with a plain consumer."""
    with stderr.status("Reading the sink back …"):
        sink = squares.sinks[0].name
        return sum(1 for p in connection.partitions(sink) for _ in stream(connection, sink, p))


def show_materializations(result: Any, sink: str) -> None:
    names = ("range", "records_in", "records_out", "dead", "transactions", "attempts")
    table = Table("asset", "partition", *names, title="materializations", title_justify="left")
    audit = Table("asset", "rows", title="audit tables", title_justify="left")
    for event in sorted(result.get_asset_materialization_events(), key=lambda e: str(e.partition)):
        metadata = event.materialization.metadata
        if event.asset_key.path == [sink]:
            told = [f"{v:,}" if isinstance(v, int) else str(v) for v in (metadata[name].value for name in names)]
            table.add_row(sink, event.partition, *told)
        elif "dagster/row_count" in metadata:
            audit.add_row(event.asset_key.to_user_string(), f"{metadata['dagster/row_count'].value:,}")
    console().print(table)
    console().print(audit)
