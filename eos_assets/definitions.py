"""The code location: a table of contents. Importing it starts nothing and needs no broker and no Java."""

import dagster as dg

from eos_assets.pipelines.squares import TOPICS
from eos_assets.resources.kafka import KafkaResource
from eos_assets.resources.spark import SparkResource

defs = dg.Definitions(
    assets=[
        dg.AssetSpec(topic.name, kinds={"kafka"}, group_name="squares", metadata={"partitions": topic.partitions})
        for topic in TOPICS
    ],
    resources={"kafka": KafkaResource(), "spark": SparkResource()},
)
