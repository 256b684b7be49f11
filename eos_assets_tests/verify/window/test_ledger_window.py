"""The ledger since the last proof."""

from typing import cast

from pyspark.sql import SparkSession

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.verify.window.window import last_proven


def test_the_checkpoint_of_the_source_counts_only_with_that_of_the_ledger() -> None:
    pipeline = Pipeline("p", Topic("source"), (Topic("sink"),), lambda r: r, "1")
    context = PipelineContext(pipeline, cast(SparkSession, None), Connection("nowhere:9092"))
    proven = {("source", 0): 7}
    assert last_proven(context, 0, proven) is None, "the ledger is a new one"
    assert last_proven(context, 0, {**proven, (context.names.ledger, 0): 3}) == 7
