"""Do the topics exist?"""

from collections.abc import Iterable

from confluent_kafka.admin import TopicMetadata

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection


def existing_topics(
    pipeline: Pipeline, connection: Connection, needed: Iterable[str], mode: Mode = Mode.EXACTLY_ONCE
) -> dict[str, TopicMetadata]:
    """The topics of the cluster. If one that is needed is missing, the error names the command that creates it."""
    existing = connection.metadata().topics
    if missing := [name for name in needed if name not in existing]:
        raise topics_missing(pipeline, missing, mode, connection)
    return existing


def topics_missing(pipeline: Pipeline, missing: list[str], mode: Mode, connection: Connection) -> EosError:
    secured = connection.security.protocol != "PLAINTEXT"
    hidden = f", or that {connection.security.principal} may not see" if secured else ""
    command = f"eos topics create --pipeline {pipeline.name}"
    module = getattr(pipeline.transform, "__module__", "__main__")
    if not module.startswith("eos_assets.") and module != "__main__":
        command += f" --module {module}"
    if mode is not Mode.EXACTLY_ONCE:
        command += f" --mode {mode}"
    return EosError(
        f"Pipeline {pipeline.name} needs topics that do not exist{hidden}: {', '.join(missing)}.",
        f"Create them with `{command}`.",
    )
