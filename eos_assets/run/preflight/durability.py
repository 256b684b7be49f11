"""Whether what brokers acknowledge outlives the loss of one of them: topics in, a refusal with the reason out."""

from confluent_kafka.admin import ConfigResource, ResourceType

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import IN_SYNC, REPLICAS
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.retries import retry_transient

#: `eos topics create` alters no topic that exists.
MORE_REPLICAS = (
    f"Give it {REPLICAS} replicas with Kafka's kafka-reassign-partitions.sh, or delete it and create it anew with "
    f"{REPLICAS} live brokers."
)
#: Kafka's own: what a transaction is, and where a group stands. Seen only by who may.
INTERNAL = ("__transaction_state", "__consumer_offsets")


def required_by(pipeline: Pipeline, connection: Connection) -> str | None:
    """The setting that requires durable topics: the profile, or the pipeline's declaration; None if neither does."""
    if connection.production:
        return "EOS_PROFILE=production"
    return "durability='production'" if pipeline.durability == "production" else None


def check_durability(pipeline: Pipeline, connection: Connection, mode: Mode) -> None:
    """Three replicas, two of them in sync before an acknowledgement, and no leader that lacks acknowledged records."""
    who = required_by(pipeline, connection)
    if who is None:
        return
    topics = connection.metadata().topics
    wanted = [pipeline.source.name, *(topic.name for topic in pipeline.own_topics(mode))]
    for name in (*wanted, *(internal for internal in INTERNAL if internal in topics)):
        replicas = min(len(p.replicas) for p in topics[name].partitions.values())
        if replicas < REPLICAS:
            refuse(name, f"has {replicas} replica(s)", who, MORE_REPLICAS)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
    for resource, future in connection.admin.describe_configs(resources).items():
        config = retry_transient(future.result)
        in_sync = int(config["min.insync.replicas"].value or 1)
        if in_sync < IN_SYNC:
            told = f"has min.insync.replicas={in_sync}"
            refuse(resource.name, told, who, f"Set min.insync.replicas={IN_SYNC} on it, with kafka-configs.sh.")
        if config["unclean.leader.election.enable"].value == "true":
            told = "has unclean.leader.election.enable=true"
            refuse(resource.name, told, who, "Set it to false on the topic, with kafka-configs.sh.")


def refuse(topic: str, told: str, who: str, remedy: str) -> None:
    raise EosError(
        f"{topic} {told}, and {who} insists on durable topics: the loss of a broker may lose what was acknowledged.",
        f"{remedy} On one node for development use EOS_PROFILE=dev and durability='dev'.",
    )
