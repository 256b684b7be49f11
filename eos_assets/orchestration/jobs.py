"""Jobs: bring one pipeline over with its checks and audit tables; prove it alone; fill a source for the experiment."""

from typing import Any

import dagster as dg

from eos_assets.declare.pipeline import Pipeline
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.offsets import bounds
from eos_assets.orchestration.assets.source_topic import observed
from eos_assets.orchestration.partitions import add_missing
from eos_assets.orchestration.resources.kafka import KafkaResource

#: Dagster has no public name for a job that is not resolved yet.
AssetJob = Any
#: Spark sessions do not survive a fork, and one JVM per step would be slow.
EXECUTOR = dg.in_process_executor


def run_job(pipeline: Pipeline, assets: list[dg.AssetsDefinition]) -> AssetJob:
    """The transactional topic, its checks, the audit tables."""
    return dg.define_asset_job(
        f"{pipeline.name}_job",
        selection=dg.AssetSelection.assets(*(key for definition in assets for key in definition.keys)),
        description=f"Brings {pipeline.name} over, proves it and writes the audit tables.",
        executor_def=EXECUTOR,
    )


def checks_job(pipeline: Pipeline, checks: list[dg.AssetChecksDefinition]) -> AssetJob:
    return dg.define_asset_job(
        f"{pipeline.name}_checks",
        selection=dg.AssetSelection.checks(*checks),
        description=f"Evaluates every check of {pipeline.name} and writes nothing else.",
        executor_def=EXECUTOR,
    )


class FillConfig(dg.Config):
    """How many integers, and into which topic."""

    topic: str = "datasource"
    count: int = 100_000


@dg.op(description="Writes integers, key and value alike, each exactly once, going on where the last fill ended.")
def fill_topic(context: dg.OpExecutionContext, config: FillConfig, kafka: KafkaResource) -> None:
    from eos_assets.declare.registry import find_pipelines

    connection = kafka.connection()
    sources = {pipeline.source.name: pipeline for pipeline in find_pipelines().values()}
    if config.topic in sources:
        pipeline = sources[config.topic]
        create_topics([pipeline.source, *pipeline.own_topics()], connection)
        add_missing(context.instance, config.topic, connection)
    filled = fill(connection, config.topic, config.count)
    told = {**observed(context.instance, config.topic, bounds(connection, config.topic)), "first": filled.first}
    told |= {"next": filled.next, "records_per_second": filled.records_per_second}
    context.log_event(dg.AssetObservation(asset_key=config.topic, metadata=told))


@dg.job(description="Fills a source topic for the experiment.", executor_def=EXECUTOR)
def fill_source() -> None:
    fill_topic()
