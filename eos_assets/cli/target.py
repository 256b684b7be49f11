"""The pipeline and the cluster on which a command works."""

from eos_assets.cli.progress import fetch_jars
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.registry import find_pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings


def prepare(name: str) -> tuple[Settings, Pipeline, Connection]:
    """Find the pipeline, connect to Kafka and fetch the jars. The first step that fails ends the command."""
    settings = Settings.load()
    pipeline = find_pipeline(name, settings.modules)
    connection = connect(settings)
    connection.metadata()
    fetch_jars(settings)
    return settings, pipeline, connection
