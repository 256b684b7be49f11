"""Measure the memory of a worker, the size of ledger and provenance, and the time of one more transaction.

`python benchmarks/costs.py [records]` starts a broker of its own.
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from sampler import Sampler

from eos_assets.declare.options import Batching
from eos_assets.declare.topic import Topic
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.pipelines.squares import squares
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets.run.run import RunOptions, run_pipeline

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
TRANSACTIONS = 40


def bytes_of_proof(folder: Path, pipeline: str) -> int:
    """The size of the pipeline's ledger and provenance in the broker's folder."""
    return sum(log.stat().st_size for log in folder.rglob("*.log") if log.parent.name.startswith(f"eos.{pipeline}."))


def main() -> None:
    console = Console()
    spark = start_session(Settings.load(), "in-process")
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder) / "kafka") as cluster:
        connection = Connection(cluster.bootstrap_servers)
        create_topics([squares.source], connection)

        def run(turn: int, batching: Batching = squares.batching) -> float:
            sinks = (Topic(f"sink-{turn}", partitions=3),)
            pipeline = replace(squares, name=f"run_{turn}", sinks=sinks, batching=batching)
            create_topics(pipeline.own_topics(), connection)
            start = time.monotonic()
            assert run_pipeline(pipeline, spark, connection, RunOptions()).complete
            return time.monotonic() - start

        fill(connection, squares.source.name, 30_000)
        with Sampler() as idle:
            for turn in range(3):
                run(turn)
        few = statistics.median(run(turn, Batching(records=1_000_000)) for turn in range(3, 6))
        many = statistics.median(run(turn, Batching(records=10_000 // TRANSACTIONS)) for turn in range(6, 9))
        fill(connection, squares.source.name, COUNT)
        with Sampler() as busy:
            seconds = run(9)
        stored = bytes_of_proof(Path(folder), "run_9")
    spark.stop()
    assert idle.peak, "found no Python worker"
    assert stored, "found no ledger"
    console.print(
        f"worker after 30,000 records: {idle.peak / 2**20:.0f} MB; over {COUNT:,}: {busy.peak / 2**20:.0f} MB"
    )
    console.print(f"{COUNT:,} records in {seconds:.1f} s, {COUNT / seconds:,.0f} records/s")
    console.print(f"ledger and provenance: {stored:,} bytes, {stored / COUNT:.3f} bytes a record")
    # Two tasks run at a time, so three partitions take one and a half times as long as one.
    more = (many - few) / (1.5 * (TRANSACTIONS - 1))
    console.print(f"one more transaction: {more * 1000:.0f} ms ({few:.2f} s and {many:.2f} s)")


main()
