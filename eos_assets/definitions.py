"""The code location: a table of contents. Importing it starts nothing and needs no broker and no Java."""

import dagster as dg

from eos_assets.declare.registry import find_pipelines
from eos_assets.orchestration.assets.experiment import experiment_definitions
from eos_assets.orchestration.jobs import EXECUTOR
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.lake import LakeResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.platform.settings import Settings

defs = dg.Definitions.merge(
    pipeline_definitions(find_pipelines(Settings.load().modules).values()),
    experiment_definitions(),
    dg.Definitions(
        resources={"kafka": KafkaResource(), "spark": SparkResource(), "lake": LakeResource()},
        executor=EXECUTOR,  # of runs that a click launches; jobs name theirs
    ),
)
