"""Measure a shuffle in a transform: the same pipeline with and without `repartition`, in turns on one broker.

`python -m benchmarks.shuffle [records] [rounds]` prints the median of the ratios of the rounds, after a warm-up.
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame
from rich.console import Console

from eos_assets.declare.topic import Topic
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.pipelines.squares import squares
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets.run.run import RunOptions, run_pipeline

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
ROUNDS = max(2, int(sys.argv[2])) if len(sys.argv) > 2 else 9
WARM_UPS = 3


def shuffled(records: DataFrame) -> DataFrame:
    squared: DataFrame = squares.transform(records.repartition(4))
    return squared


TRANSFORMS = {"narrow": squares.transform, "shuffled": shuffled}


def main() -> None:
    console = Console()
    ratios = []
    spark = start_session(Settings.load(), "in-process")
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder) / "kafka") as cluster:
        connection = Connection(cluster.bootstrap_servers)
        create_topics([squares.source], connection)
        fill(connection, squares.source.name, COUNT)

        def seconds(kind: str, turn: int) -> float:
            sinks = (Topic(f"{kind}-{turn}", partitions=3),)
            pipeline = replace(squares, name=f"{kind}_{turn}", sinks=sinks, transform=TRANSFORMS[kind])
            create_topics(pipeline.own_topics(), connection)
            start = time.monotonic()
            assert run_pipeline(pipeline, spark, connection, RunOptions()).complete
            return time.monotonic() - start

        for turn in range(WARM_UPS + ROUNDS):
            kinds = list(TRANSFORMS) if turn % 2 else list(reversed(TRANSFORMS))
            took = {kind: seconds(kind, turn) for kind in kinds}
            console.print(f"round {turn - WARM_UPS + 1}: " + ", ".join(f"{k} {took[k]:.2f} s" for k in TRANSFORMS))
            if turn >= WARM_UPS:
                ratios.append(took["shuffled"] / took["narrow"])
    spark.stop()
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    console.print(f"{COUNT:,} records: a shuffle takes {median:.2f} times as long ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
