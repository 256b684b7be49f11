"""What most commands begin with: the pipeline, a Kafka that answers, and the jars for Spark."""

from eos_assets.cli.progress import fetch_jars
from eos_assets.exactly_once.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.registry import find_pipeline
from eos_assets.settings import Settings


def reach(name: str, modules: tuple[str, ...]) -> tuple[Settings, Pipeline, Connection]:
    """Clear errors, in this order: an unknown pipeline, no Kafka, jars that cannot be fetched."""
    settings = Settings.load()
    pipeline = find_pipeline(name, modules)
    connection = Connection.load(settings)
    connection.metadata()
    fetch_jars(settings)
    return settings, pipeline, connection
