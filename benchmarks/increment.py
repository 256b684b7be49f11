"""Measures the run, the proof and the update of the audit tables for new records."""

import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console

from benchmarks.pipelines import PIPELINES
from benchmarks.results import IncrementResult
from benchmarks.stage import Stage
from benchmarks.tables import increment_table
from eos_assets.audit.tables import AuditTables
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.run.run import run_pipeline
from eos_assets.verify.verify import verify_pipeline

RUN, PROOF, AUDIT = "run", "proof", "audit tables"


def measure_increment(stage: Stage, records: int, *, warm_ups: int, rounds: int, console: Console) -> IncrementResult:
    """Both kinds take turns. Each has a source of its own, to which the records of a round are appended."""
    steps = {kind: steps_of(stage, kind, declared[0], records) for kind, declared in PIPELINES.items()}
    seconds: dict[str, dict[str, list[float]]] = {kind: {name: [] for name in steps[kind]} for kind in steps}
    for number in range(warm_ups + rounds):
        for kind, named in steps.items():
            fill(stage.connection, source_of(kind).name, records)
            for name, step in named.items():
                started = time.monotonic()
                step()
                if number >= warm_ups:
                    seconds[kind][name].append(round(time.monotonic() - started, 4))
        console.print(f"increment: {number + 1} of {warm_ups + rounds} rounds", style="dim")
    result = IncrementResult(records=records, kinds=seconds)
    console.print(increment_table(result).rich())
    return result


def source_of(kind: str) -> Topic:
    return Topic(f"increment-{kind.lower()}")


def steps_of(stage: Stage, kind: str, declared: Pipeline, records: int) -> dict[str, Callable[[], None]]:
    """What follows new records of one pipeline, each checked."""
    name = f"increment_{kind.lower()}"
    pipeline = replace(declared, name=name, source=source_of(kind), sinks=(Topic(f"{name}-sink"),))
    create_topics([pipeline.source, *pipeline.own_topics()], stage.connection)
    spark, connection = stage.contenders.spark.session, stage.connection
    tables = AuditTables(pipeline, spark, connection, str(stage.folder / "lakes" / name))

    def run() -> None:
        report = run_pipeline(pipeline, spark, connection)
        assert report.complete, report.failures

    def prove() -> None:
        proof = verify_pipeline(pipeline, spark, connection)
        assert proof.holds, proof
        assert proof.figures["source_records"] == records

    def update() -> None:
        tables.update()

    return {RUN: run, PROOF: prove, AUDIT: update}
