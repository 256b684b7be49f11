"""The code location: a table of contents. Importing it starts nothing and needs no broker and no Java."""

import dagster as dg

from eos_assets.registry import find_pipelines
from eos_assets.resources.kafka import KafkaResource
from eos_assets.resources.spark import SparkResource

defs = dg.Definitions(
    assets=[
        dg.AssetSpec(topic.name, kinds={"kafka"}, group_name=pipeline.name, metadata={"partitions": topic.partitions})
        for pipeline in find_pipelines().values()
        for topic in (pipeline.source, *pipeline.sinks)
    ],
    resources={"kafka": KafkaResource(), "spark": SparkResource()},
)
