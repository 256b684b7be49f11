"""The job that fills a source topic with integers."""

import dagster as dg
from pydantic import Field

from eos_assets.declare.registry import find_pipelines
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.offsets import bounds
from eos_assets.orchestration.assets.source_topic import observation_metadata
from eos_assets.orchestration.failures import MAX_RETRIES
from eos_assets.orchestration.jobs import EXECUTOR
from eos_assets.orchestration.keys import source_key
from eos_assets.orchestration.partitions import add_new_partitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.platform.settings import Settings


class FillConfig(dg.Config):
    """Which topic to fill, and with how many integers."""

    topic: str = Field(default="datasource", description="The topic to fill.")
    count: int = Field(default=100_000, description="The number of integers to write.")


@dg.op(
    description="Writes consecutive integers as key and value, each exactly once, from the last one in the topic on."
)
def fill_topic(context: dg.OpExecutionContext, config: FillConfig, kafka: KafkaResource) -> None:
    connection = kafka.connection()
    readers = {pipeline.source.name: pipeline for pipeline in find_pipelines(Settings.load().modules).values()}
    if pipeline := readers.get(config.topic):
        create_topics([pipeline.source, *pipeline.own_topics()], connection)
        add_new_partitions(context.instance, config.topic, connection)
    filled = fill(connection, config.topic, config.count)
    metadata = {
        **observation_metadata(context.instance, config.topic, bounds(connection, config.topic)),
        "first": filled.first,
        "next": filled.next,
        "records_per_second": filled.records_per_second,
    }
    context.log_event(dg.AssetObservation(asset_key=source_key(config.topic), metadata=metadata))


@dg.job(
    description="Fills a source topic with integers.",
    executor_def=EXECUTOR,
    tags={MAX_RETRIES: "0"},  # a repeated run would write as many integers again
)
def fill_source() -> None:
    fill_topic()
