"""Measure a state of many keys on a Spark of one gigabyte: the memory of its Python workers and the time of a run.

`python -m benchmarks.state [keys]` starts a broker of its own. The first run writes one record per key. The second one
writes records of a few keys and loads the whole state from the changelog.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console

from benchmarks.usage import PeakMemory, python_workers
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.pipelines.balances import balances
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import start_session
from eos_assets.run.run import run_pipeline
from eos_assets.verify.verify import verify_pipeline

KEYS = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
FEW = 10_000


def send(connection: Connection, accounts: range, turn: int) -> None:
    producer = Producer(connection.config(partitioner="murmur2_random", queue_buffering_max_messages=10_000_000))
    for number in accounts:
        account = f"account-{number:010d}"
        transaction = {"transaction_id": f"{turn}-{number}", "account": account, "amount": "1.25", "currency": "EUR"}
        producer.produce(balances.source.name, json.dumps(transaction), account)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def main() -> None:
    console = Console()
    spark = start_session(Settings.load(), "in-process", {"spark.driver.memory": "1g"})
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder) / "kafka") as cluster:
        connection = Connection(cluster.bootstrap_servers)
        create_topics([balances.source, *balances.own_topics()], connection)
        for turn, accounts in enumerate((range(KEYS), range(0, KEYS, max(1, KEYS // FEW)))):
            send(connection, accounts, turn)
            start = time.monotonic()
            with PeakMemory(python_workers) as memory:
                assert run_pipeline(balances, spark, connection).complete
            seconds = time.monotonic() - start
            peak = f"Python workers at most {memory.worker / 2**20:.0f} MB"
            console.print(f"{len(accounts):,} records in {seconds:.0f} s, {peak}")
            assert memory.worker, "found no Python worker"
        with PeakMemory(python_workers) as memory:
            proof = verify_pipeline(balances, spark, connection)
        console.print(f"proven: {proof.holds}, Python workers at most {memory.worker / 2**20:.0f} MB")
    spark.stop()


if __name__ == "__main__":
    main()
