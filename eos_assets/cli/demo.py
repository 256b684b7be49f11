"""`eos demo`: the main job from beginning to end, on a Kafka and a Spark that it starts."""

import os
import re
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psutil
from rich.console import Console
from rich.table import Table

from eos_assets.cli import checks
from eos_assets.cli.console import console
from eos_assets.cli.log_output import stderr_console
from eos_assets.cli.progress import bar, fetch_jars
from eos_assets.cli.up import interrupt
from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import Pipeline
from eos_assets.experiment.faults import Faults
from eos_assets.experiment.fill import fill
from eos_assets.files.announce import announce, announcement
from eos_assets.files.generate import make_transactions, write_file
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partition
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.disk import require_space
from eos_assets.pipelines.balances import balances
from eos_assets.pipelines.file_transactions import file_transactions
from eos_assets.pipelines.squares import squares
from eos_assets.platform.folders import make_folder
from eos_assets.platform.jars import version_of
from eos_assets.platform.settings import Settings

if TYPE_CHECKING:
    import dagster as dg

ROWS_PER_FILE = 2_000
#: Small transaction batches, so that there are enough transactions to fail.
BATCH_RECORDS = 10_000


@click.command("demo")
@click.option("--count", type=click.IntRange(1), default=100_000, show_default=True, help="Number of integers.")
@click.option(
    "--failure-probability", type=float, default=0.3, show_default=True, help="Probability that a transaction fails."
)
@click.option("--seed", type=int, default=7, show_default=True, help="Selects the transactions that fail.")
def demo_command(count: int, failure_probability: float, seed: int) -> None:
    """Square a topic while transactions fail and a worker is killed, turn files into transactions and those into
    balances, and prove each result.

    All steps are Dagster materializations, with their checks and audit tables. Status 0 only if every check passed.
    Nothing remains after the command, and a running `eos up` is not affected.
    """
    import dagster as dg

    Faults(failure_probability, seed)  # refuses an invalid probability before anything is started
    config: dict[str, object] = {"failure_probability": failure_probability, "seed": seed, "max_attempts": 50}
    settings = Settings.load()
    fetch_jars(settings)
    require_space(make_folder(settings.home))
    stderr = stderr_console()
    signal.signal(signal.SIGTERM, interrupt)
    demos = make_folder(settings.home / "demo")
    remove_leftovers(demos)
    with tempfile.TemporaryDirectory(prefix=f"{os.getpid()}-", dir=demos) as folder:
        with stderr.status("Starting Kafka …"):
            cluster = KafkaCluster(Path(folder) / "kafka", settings=settings)
            cluster.start()
        try:
            with dg.DagsterInstance.ephemeral() as instance:
                demo = Demo(Connection(cluster.bootstrap_servers), Path(folder), instance, stderr)
                proven = demo.run(count, config)
        finally:
            cluster.close()
    if not proven:
        raise click.ClickException("not every check passed, or records are missing")


def remove_leftovers(demos: Path) -> None:
    """Remove the folders of demos that were killed: their processes no longer exist."""
    for folder in demos.iterdir():
        match = re.fullmatch(r"(\d{1,9})-\w+", folder.name)
        if match and not psutil.pid_exists(int(match.group(1))):
            shutil.rmtree(folder, ignore_errors=True)


class Demo:
    """The pipelines of the project on one Kafka, one Spark and one Dagster instance: the objects that the UI shows."""

    def __init__(self, connection: Connection, folder: Path, instance: "dg.DagsterInstance", stderr: Console) -> None:
        import dagster as dg

        from eos_assets.orchestration.faulty_runs import FaultyRunConfig
        from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
        from eos_assets.orchestration.resources.kafka import KafkaResource
        from eos_assets.orchestration.resources.lake import LakeResource
        from eos_assets.orchestration.resources.spark import SparkResource

        self.connection = connection
        self.folder = folder
        self.instance = instance
        self.stderr = stderr
        self.squares = replace(squares, batching=Batching(records=BATCH_RECORDS))
        #: The name of a pipeline and the result of one of its jobs.
        self.results: list[tuple[str, Any]] = []
        declared = [self.squares, file_transactions, balances]
        resources = {
            "kafka": KafkaResource(bootstrap_servers=connection.bootstrap_servers, security_protocol="PLAINTEXT"),
            "spark": SparkResource(address="in-process"),
            "lake": LakeResource(path=str(folder / "lake")),
        }
        self.definitions = dg.Definitions.merge(
            pipeline_definitions(declared, run_config=FaultyRunConfig), dg.Definitions(resources=resources)
        )
        create_topics([topic for p in declared for topic in (p.source, *p.own_topics())], connection)

    def run(self, count: int, config: dict[str, object]) -> bool:
        """Run all pipelines. True if every check passed and no record is missing."""
        source = self.squares.source.name
        with bar(f"Filling {source}", count) as done:
            filled = fill(self.connection, source, count, progress=done)
        self.materialize(self.squares, "Squaring, with injected failures", {**config, "kill_partition": 1})
        committed = self.read_back(self.squares.sinks[0].name)
        self.announce_files()
        self.materialize(file_transactions, "Files to transactions", {})
        self.materialize(balances, "Transactions to balances, with injected failures", config)
        table = Table("what", "value", title="eos demo", title_justify="left")
        broker = f"Apache Kafka {version_of('kafka_2.13')}, KRaft, {self.connection.bootstrap_servers}"
        table.add_row("broker", broker)
        flows = (f"{p.source.name} → {p.sinks[0].name}" for p in (self.squares, file_transactions, balances))
        table.add_row("topics", ", ".join(flows))
        table.add_row("records filled", f"{filled.written:,} at {filled.records_per_second:,.0f} records/s")
        chance = config["failure_probability"]
        table.add_row("injected failures", f"each transaction with probability {chance}; one worker killed")
        table.add_row("records read back committed", f"{committed:,}")
        console().print(table)
        show_materializations(self.results)
        rows = [row for name, result in self.results for row in checks.rows(name, result)]
        checks.show(rows)
        passed = sum(row["passed"] for row in rows)
        console().print(f"{passed} of {len(rows)} checks passed; {committed:,} of {count:,} integers squared.")
        return committed == count and all(row["passed"] or row["severity"] == "WARN" for row in rows)

    def materialize(self, pipeline: Pipeline, activity: str, config: dict[str, object]) -> None:
        """Materialize all partitions of one pipeline in one run with its checks, then its tables."""
        from eos_assets.orchestration.partitions import add_new_partitions, range_tags

        with self.stderr.status(f"{activity} …"):
            add_new_partitions(self.instance, pipeline.source.name, self.connection)
            self.execute(
                pipeline,
                "job",
                run_config={"ops": {pipeline.name: {"config": config}}, **checks.QUIET},
                tags=range_tags(0, pipeline.source.partitions - 1),
            )
            self.execute(pipeline, "audit_job", run_config=checks.QUIET)

    def execute(self, pipeline: Pipeline, job: str, **options: Any) -> None:
        definition = self.definitions.resolve_job_def(f"{pipeline.name}_{job}")
        result = definition.execute_in_process(instance=self.instance, raise_on_error=False, **options)
        self.results.append((pipeline.name, result))

    def announce_files(self) -> None:
        """Announce files of several formats, and one that does not exist: it becomes a dead letter."""
        folder = self.folder / "files"
        folder.mkdir()
        os.environ["EOS_FILES_ROOT"] = str(folder)
        paths = [
            write_file(folder / f"transactions-{seed}.{name}", make_transactions(ROWS_PER_FILE, seed=seed))
            for seed, name in enumerate(("csv.gz", "jsonl.zst", "parquet"))
        ]
        files = [*(announcement(str(path)) for path in paths), announcement((folder / "lost.csv").as_uri())]
        announce(self.connection, file_transactions.source.name, files)

    def read_back(self, sink: str) -> int:
        """Count the committed records of the sink with a plain consumer."""
        with self.stderr.status("Reading the sink back …"):
            return sum(1 for p in self.connection.partitions(sink) for _ in read_partition(self.connection, sink, p))


def show_materializations(results: list[tuple[str, Any]]) -> None:
    names = ("range", "records_in", "records_out", "dead", "transactions", "attempts")
    table = Table("asset", "partition", *names, title="materializations", title_justify="left")
    tables = Table("asset", "rows", title="tables", title_justify="left")
    sinks = {sink.name for pipeline in (squares, file_transactions, balances) for sink in pipeline.sinks}
    for _, result in results:
        for event in sorted(result.get_asset_materialization_events(), key=lambda e: str(e.partition)):
            metadata = event.materialization.metadata
            asset = event.asset_key.to_user_string()
            if asset in sinks:
                values = (metadata[name].value for name in names)
                cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in values]
                table.add_row(asset, event.partition, *cells)
            elif "dagster/row_count" in metadata:
                tables.add_row(asset, f"{metadata['dagster/row_count'].value:,}")
    console().print(table)
    console().print(tables)
