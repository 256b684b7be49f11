"""Where the assets run: Kafka, Spark and the lake, by the settings."""

import dagster as dg

from eos_assets.orchestration.jobs import EXECUTOR
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource

defs = dg.Definitions(
    resources={"kafka": KafkaResource(), "spark": SparkResource(), "lake": LakeResource()},
    executor=EXECUTOR,  # of runs that a click launches; jobs name theirs
)
