"""What most commands begin with: the pipeline, a Kafka that answers, and the jars for Spark."""

from eos_assets.cli.progress import fetch_jars
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import find_pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings


def reach(name: str, modules: tuple[str, ...]) -> tuple[Settings, Pipeline, Connection]:
    """Clear errors, in this order: an unknown pipeline, no Kafka, jars that cannot be fetched."""
    settings = Settings.load()
    pipeline = find_pipeline(name, modules)
    connection = connect(settings)
    connection.metadata()
    fetch_jars(settings)
    return settings, pipeline, connection
