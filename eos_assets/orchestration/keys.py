"""The asset keys of a pipeline's topics and tables: a topic's name, or pipeline and topic where others write it too."""

from collections.abc import Iterable

import dagster as dg

from eos_assets.declare.pipeline import Pipeline


def topic_key(pipeline: Pipeline, topic: str) -> dg.AssetKey:
    """What the pipeline writes to this topic. One asset has one writer, so a shared topic is one asset per writer."""
    return dg.AssetKey([pipeline.name, topic] if pipeline.shared_sink else topic)


def sink_keys(pipeline: Pipeline) -> list[dg.AssetKey]:
    return [topic_key(pipeline, sink.name) for sink in pipeline.sinks]


def dead_letters_key(pipeline: Pipeline) -> dg.AssetKey:
    return topic_key(pipeline, pipeline.names().dead_letters)


def table_key(pipeline: Pipeline, table: str) -> dg.AssetKey:
    return dg.AssetKey([pipeline.name, table])


def written_topics(pipeline: Pipeline) -> set[str]:
    """The topics of a pipeline that are assets, and so may be the source of another one."""
    return {*(sink.name for sink in pipeline.sinks), pipeline.names().dead_letters}


def writers_of(topic: str, pipelines: Iterable[Pipeline]) -> list[Pipeline]:
    return [pipeline for pipeline in pipelines if topic in written_topics(pipeline)]


def source_keys(pipeline: Pipeline, pipelines: Iterable[Pipeline]) -> list[dg.AssetKey]:
    """What the pipeline reads: the assets of all that write its source, else the source itself."""
    topic = pipeline.source.name
    return [topic_key(writer, topic) for writer in writers_of(topic, pipelines)] or [dg.AssetKey(topic)]
