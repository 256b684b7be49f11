"""The asset keys of a pipeline's topics and tables, and the pool of its runs."""

from collections.abc import Iterable

import dagster as dg

from eos_assets.declare.options import RESERVED
from eos_assets.declare.pipeline import Pipeline


def pool_name(pipeline: Pipeline) -> str:
    """The pool that runs one run of the pipeline at a time. That is for efficiency only: fencing is the guarantee."""
    return f"eos_{pipeline.name}"


def source_key(topic: str) -> dg.AssetKey:
    """The asset of a topic. Dagster reserves some names, such as input and output."""
    return dg.AssetKey(["topic", topic] if topic in RESERVED else topic)


def topic_key(pipeline: Pipeline, topic: str) -> dg.AssetKey:
    """The asset that a pipeline writes to a topic. An asset has one writer, so a shared topic has one per pipeline."""
    return dg.AssetKey([pipeline.name, topic]) if pipeline.shared_sink else source_key(topic)


def sink_keys(pipeline: Pipeline) -> list[dg.AssetKey]:
    return [topic_key(pipeline, sink.name) for sink in pipeline.sinks]


def dead_letters_key(pipeline: Pipeline) -> dg.AssetKey:
    return topic_key(pipeline, pipeline.names().dead_letters)


def table_key(pipeline: Pipeline, table: str) -> dg.AssetKey:
    return dg.AssetKey([pipeline.name, table])


def written_topics(pipeline: Pipeline) -> set[str]:
    """The topics of a pipeline that another pipeline may read."""
    return {*(sink.name for sink in pipeline.sinks), pipeline.names().dead_letters}


def writers_of(topic: str, pipelines: Iterable[Pipeline]) -> list[Pipeline]:
    return [pipeline for pipeline in pipelines if topic in written_topics(pipeline)]


def source_keys(pipeline: Pipeline, pipelines: Iterable[Pipeline]) -> list[dg.AssetKey]:
    """The assets that a pipeline reads: those of all pipelines that write its source, else the source itself."""
    topic = pipeline.source.name
    return [topic_key(writer, topic) for writer in writers_of(topic, pipelines)] or [source_key(topic)]
