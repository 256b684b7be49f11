"""What a record costs beside its time: the worker's memory, the proof's bytes on disk, and one more transaction.

`python benchmarks/costs.py [records]` runs on a broker of its own. The worker's peak is sampled from the outside.
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
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets.local.broker import KafkaCluster
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.pipelines.squares import squares
from eos_assets.run.run import RunOptions, run_pipeline

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
SLICES = 40


def proof_bytes(folder: Path, pipeline: str) -> int:
    """The size of the pipeline's ledger and provenance in the broker's folder."""
    return sum(log.stat().st_size for log in folder.rglob("*.log") if log.parent.name.startswith(f"eos.{pipeline}."))


def main() -> None:
    console = Console()
    spark = SparkResource(address="in-process").spark_session
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder) / "kafka") as cluster:
        connection = Connection(cluster.bootstrap_servers)
        create_topics([squares.source], connection)

        def run(turn: int, **declared: int) -> float:
            pipeline = replace(squares, name=f"run_{turn}", sinks=(Topic(f"sink-{turn}", partitions=3),), **declared)
            create_topics(pipeline.own_topics(), connection)
            begun = time.monotonic()
            assert run_pipeline(pipeline, spark, connection, RunOptions()).complete
            return time.monotonic() - begun

        fill(connection, squares.source.name, 30_000)
        with Sampler() as idle:
            for turn in range(3):
                run(turn)
        few = statistics.median(run(turn, batching=Batching(records=1_000_000)) for turn in range(3, 6))
        many = statistics.median(run(turn, batching=Batching(records=10_000 // SLICES)) for turn in range(6, 9))
        fill(connection, squares.source.name, COUNT)
        with Sampler() as busy:
            seconds = run(9)
        stored = proof_bytes(Path(folder), "run_9")
    spark.stop()
    assert idle.peak, "no Python worker was seen"
    assert stored, "no ledger was seen"
    console.print(
        f"worker after 30,000 records: {idle.peak / 2**20:.0f} MB; over {COUNT:,}: {busy.peak / 2**20:.0f} MB"
    )
    console.print(f"{COUNT:,} records in {seconds:.1f} s, {COUNT / seconds:,.0f} records/s")
    console.print(f"ledger and provenance: {stored:,} bytes, {stored / COUNT:.3f} bytes a record")
    # Two tasks run at a time, so three partitions take one and a half rounds of their slices.
    console.print(
        f"one more slice: {(many - few) / (1.5 * (SLICES - 1)) * 1000:.0f} ms ({few:.2f} s against {many:.2f} s)"
    )


main()
