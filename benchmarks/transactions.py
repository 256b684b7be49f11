"""Measures the time of one more transaction, and the size of the ledger and the provenance."""

import os
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.pipelines import PIPELINES
from benchmarks.results import TransactionResult
from benchmarks.stage import Source, Stage
from benchmarks.tables import transactions_table
from benchmarks.workload import INTEGERS
from eos_assets.declare.options import Batching
from eos_assets.declare.topic import Topic
from eos_assets.kafka.admin import create_topics
from eos_assets.run.run import run_pipeline

#: A run with one transaction in each partition is compared with one of this many.
TRANSACTIONS = 40
PARTITIONS = 3


def measure_transactions(
    stage: Stage, few: int, many: int, *, warm_ups: int, rounds: int, console: Console
) -> TransactionResult:
    """Measure transactions over few records, and sizes over many."""
    source, large = (stage.source(INTEGERS, records, PARTITIONS) for records in (few, many))
    one, several = Batching(), Batching(records=max(1, few // PARTITIONS // TRANSACTIONS))
    # A task runs on each core, so on two of them three partitions take one and a half times as long as one.
    turns = max(1.0, PARTITIONS / len(os.sched_getaffinity(0))) * (TRANSACTIONS - 1)
    seconds: dict[str, list[float]] = {kind: [] for kind in PIPELINES}
    sizes = {}
    for kind in PIPELINES:
        for number in range(warm_ups + rounds):
            short, long = (run(stage, kind, source, each, f"{kind}_{number}_{each.records}") for each in (one, several))
            if number >= warm_ups:
                seconds[kind].append(round((long - short) / turns, 4))
        run(stage, kind, large, one, f"{kind}_large")
        sizes[kind] = round(bytes_of_proof(stage.folder, f"{kind}_large".lower()) / many, 4)
    result = TransactionResult(seconds=seconds, records=many, bytes_per_record=sizes)
    console.print(transactions_table(result).rich())
    stage.drop_sources()
    return result


def run(stage: Stage, kind: str, source: Source, batching: Batching, name: str) -> float:
    """Process a source with a new pipeline. Returns the seconds."""
    sink = Topic(f"{name}-sink", PARTITIONS)
    pipeline = replace(PIPELINES[kind][0], name=name.lower(), source=source.topic, sinks=(sink,), batching=batching)
    create_topics(pipeline.own_topics(), stage.connection)
    started = time.monotonic()
    assert run_pipeline(pipeline, stage.contenders.spark.session, stage.connection).complete
    return time.monotonic() - started


def bytes_of_proof(folder: Path, pipeline: str) -> int:
    """The size of a pipeline's ledger and provenance in the broker's folder."""
    return sum(log.stat().st_size for log in folder.rglob("*.log") if log.parent.name.startswith(f"eos.{pipeline}."))
