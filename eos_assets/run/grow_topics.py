"""Lets the pipeline's own topics grow with its source, after the preflight and before the first job."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions

from eos_assets.context import PipelineContext
from eos_assets.errors import EosError
from eos_assets.kafka.admin import await_partitions, await_visible
from eos_assets.kafka.auth_errors import denied_resource
from eos_assets.kafka.connection import Connection


def grow_own_topics(context: PipelineContext, partitions: dict[str, int]) -> None:
    """Add partitions to the ledger, the provenance and the dead letters: partition p of each belongs to partition p of
    the source.

    Args:
        context: the pipeline and where it runs.
        partitions: the number of partitions of each topic, from the preflight.
    """
    names, source = context.names, partitions[context.pipeline.source.name]
    for topic in (names.ledger, names.provenance, names.dead_letters):
        if partitions[topic] < source:
            grow(context.kafka, topic, source)


def grow(connection: Connection, topic: str, partitions: int) -> None:
    """Add partitions to a topic. Another run may do so at the same time."""
    (future,) = connection.admin.create_partitions([NewPartitions(topic, partitions)]).values()
    try:
        future.result()
    except KafkaException as error:
        grown_by_another_run = error.args[0].code() == KafkaError.INVALID_PARTITIONS
        if not (grown_by_another_run and await_partitions(topic, partitions, connection)):
            if not denied_resource(error.args[0]):
                raise
            raise may_not_grow(connection, topic, partitions) from error
    await_partitions(topic, partitions, connection)  # the brokers learn of them later than the controller
    await_visible({topic}, connection)


def may_not_grow(connection: Connection, topic: str, partitions: int) -> EosError:
    principal = connection.security.principal
    return EosError(
        f"The source has {partitions} partitions now, {topic} must grow with it, and {principal} lacks Alter on topic "
        f"{topic}. No record was written.",
        f"Grant it (`eos acls --creation` prints the command), or give {topic} {partitions} partitions.",
    )
