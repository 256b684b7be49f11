"""Measure the run, the proof and the update of the audit tables for new records.

`python benchmarks/increment.py [records] [rounds] [warm-ups]` starts a broker and a Spark of its own. The figures are
medians over the rounds, with the quartiles.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from eos_assets.audit.tables import AuditTables
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.pipelines.squares import squares
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets.run.run import run_pipeline
from eos_assets.verify.verify import verify_pipeline

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
ROUNDS = max(2, int(sys.argv[2])) if len(sys.argv) > 2 else 7
WARM_UPS = int(sys.argv[3]) if len(sys.argv) > 3 else 5


def main() -> None:
    console = Console()
    seconds: dict[str, list[float]] = {"run": [], "proof": [], "audit tables": []}
    spark = start_session(Settings.load(), "in-process")
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder) / "kafka") as cluster:
        connection = Connection(cluster.bootstrap_servers)
        create_topics([squares.source, *squares.own_topics()], connection)
        tables = AuditTables(squares, spark, connection, f"{folder}/lake")
        for number in range(WARM_UPS + ROUNDS):
            fill(connection, squares.source.name, COUNT)
            steps: dict[str, Callable[[], object]] = {
                "run": lambda: run_pipeline(squares, spark, connection),
                "proof": lambda: verify_pipeline(squares, spark, connection),
                "audit tables": tables.update,
            }
            for name, step in steps.items():
                start = time.monotonic()
                result = step()
                took = time.monotonic() - start
                assert getattr(result, "complete", True), name
                assert getattr(result, "holds", True), name
                if name == "proof":
                    assert result.figures["source_records"] == COUNT  # type: ignore[attr-defined]
                warm = number >= WARM_UPS
                console.print(f"{f'round {number - WARM_UPS + 1}' if warm else 'warm-up'}: {name}: {took:.2f} s")
                if warm:
                    seconds[name].append(took)
    spark.stop()
    table = Table("step", "seconds", "times the run", title=f"{COUNT:,} new records")
    for name, times in seconds.items():
        ratios = [took / run for took, run in zip(times, seconds["run"], strict=True)]
        table.add_row(name, spread(times), spread(ratios))
    console.print(table)


def spread(figures: list[float]) -> str:
    """The median and the quartiles."""
    low, median, high = statistics.quantiles(figures, n=4, method="inclusive")
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


main()
