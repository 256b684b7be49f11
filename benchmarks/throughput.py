"""Compare the throughput of exactly once with at least once and with Spark's own Kafka sink.

All contenders read the same records with the same reader settings and apply the same transform. They take turns, and
the order changes in each round. The first rounds warm the JVMs up. The figures are medians with quartiles. A ratio is
the median of the ratios of the rounds, because a machine that is slow for a minute slows all contenders of a round.

`make bench` starts a broker of its own and takes about eight minutes. With a third argument, `ours`, Spark's sink is
left out, and a run takes two thirds of the time.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from eos_assets.declare.modes import Mode
from eos_assets.declare.topic import Topic
from eos_assets.experiment.baselines import delivery_of
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import bounds
from eos_assets.local.broker import KafkaCluster
from eos_assets.log.ranges import OffsetRange
from eos_assets.pipelines.squares import squares
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets.run.run import RunOptions, run_pipeline
from eos_assets.transform.source import read_records

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
ROUNDS = max(2, int(sys.argv[2])) if len(sys.argv) > 2 else 21
#: The JVMs become faster for this many rounds, that of the broker the longest: exactly once used 4.7 s of CPU there in
#: the first round, 1.5 to 3.4 s in the next eight, and 0.9 to 1.5 s after them.
WARM_UPS = 8


def spark_sink(spark: SparkSession, connection: Connection, turn: int) -> float:
    """Spark's own Kafka sink: idempotent per task attempt, at least once over retries."""
    topic = Topic(f"spark-{turn}", partitions=3)
    create_topics([topic], connection)
    ranges = [OffsetRange(p, b.start, b.stable) for p, b in bounds(connection, squares.source.name).items()]
    start = time.monotonic()
    result = squares.transform(read_records(spark, connection, squares.source.name, ranges)).where("error is null")
    (
        result.select("key", "value")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", connection.bootstrap_servers)
        .option("topic", topic.name)
        .option("kafka.acks", "all")
        .option("kafka.linger.ms", "5")
        .option("kafka.batch.size", str(1 << 20))
        .option("kafka.compression.type", "lz4")
        .save()
    )
    return time.monotonic() - start


def ours(mode: Mode) -> Callable[[SparkSession, Connection, int], float]:
    def run(spark: SparkSession, connection: Connection, turn: int) -> float:
        pipeline = replace(squares, name=f"squares_{turn}", sinks=(Topic(f"ours-{turn}", partitions=3),))
        create_topics(pipeline.own_topics(mode), connection)
        start = time.monotonic()
        report = run_pipeline(pipeline, spark, connection, RunOptions(mode=mode, delivery=delivery_of(mode)))
        seconds = time.monotonic() - start
        assert report.complete, report.failures
        assert sum(outcome.records_out for outcome in report.summary()) == COUNT
        return seconds

    return run


SPARK, BASELINE = "Spark's sink, at least once", "eos, at least once"
CONTENDERS = {
    SPARK: spark_sink,
    "eos, exactly once": ours(Mode.EXACTLY_ONCE),
    BASELINE: ours(Mode.AT_LEAST_ONCE),
}
if "ours" in sys.argv[3:]:
    del CONTENDERS[SPARK]


def main() -> None:
    console = Console()
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    spark = start_session(Settings.load(), "in-process")
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder) / "kafka") as cluster:
        connection = Connection(cluster.bootstrap_servers)
        create_topics([squares.source], connection)
        fill(connection, squares.source.name, COUNT)
        names = list(CONTENDERS)
        for number in range(WARM_UPS + ROUNDS):
            warm = number >= WARM_UPS
            for turn in range(len(names)):
                name = names[(number + turn) % len(names)]
                took = CONTENDERS[name](spark, connection, number * len(names) + turn)
                console.print(f"{f'round {number - WARM_UPS + 1}' if warm else 'warm-up'}: {name}: {took:.2f} s")
                if warm:
                    seconds[name].append(took)
    spark.stop()
    table = Table(
        "contender", "seconds", "records/s", "of Spark's sink", "of our at-least-once", title=f"{COUNT:,} records"
    )
    for name, times in seconds.items():
        ratios = [spread(ratios_of(times, seconds[peer])) if peer in seconds else "" for peer in (SPARK, BASELINE)]
        table.add_row(name, spread(times), f"{COUNT / statistics.median(times):,.0f}", *ratios)
    console.print(table)


def ratios_of(times: list[float], peer: list[float]) -> list[float]:
    """The speed in relation to the peer in each round: 1 is equally fast."""
    return [other / own for own, other in zip(times, peer, strict=True)]


def spread(figures: list[float]) -> str:
    """The median and the quartiles."""
    low, median, high = statistics.quantiles(figures, n=4, method="inclusive")
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


main()
