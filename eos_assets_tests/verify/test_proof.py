"""What a check that a pipeline declares can read."""

from pyspark.sql import SparkSession

from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.verify.proof import RECORD_COLUMNS, Proof
from eos_assets.verify.topic_frames import TopicFrames
from eos_assets.verify.window.window import Window


def test_deliveries_before_the_first_run_have_all_their_columns(spark: SparkSession) -> None:
    pipeline = Pipeline("p", Topic("source"), (Topic("sink"),), lambda r: r, "1")
    context = PipelineContext(pipeline, spark, Connection("nowhere:9092"))
    deliveries = Proof(TopicFrames(context, Window({}, {}, {}))).deliveries()
    assert deliveries.columns == ["source", "output", "sequence"]
    for side in ("source", "output"):
        assert deliveries.select(f"{side}.*").columns == list(RECORD_COLUMNS)
    assert deliveries.isEmpty()
