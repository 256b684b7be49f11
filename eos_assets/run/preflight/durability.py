"""Do records that the brokers acknowledged survive the loss of one broker?"""

from confluent_kafka.admin import ConfigResource, ResourceType

from eos_assets.context import PipelineContext
from eos_assets.declare.topic import IN_SYNC, REPLICAS
from eos_assets.errors import EosError
from eos_assets.kafka.retries import retry_transient

#: `eos topics create` does not alter a topic that exists.
ADD_REPLICAS = (
    f"Give it {REPLICAS} replicas with Kafka's kafka-reassign-partitions.sh, or delete it and create it again with "
    f"{REPLICAS} live brokers."
)
#: Kafka's own topics, which hold the transactions and the group offsets. A client may lack the permission to see them.
INTERNAL = ("__transaction_state", "__consumer_offsets")


def durability_setting(context: PipelineContext) -> str | None:
    """The setting that requires durable topics: the profile, or the pipeline's declaration; None if neither does."""
    if context.kafka.production:
        return "EOS_PROFILE=production"
    return "durability='production'" if context.pipeline.durability == "production" else None


def check_durability(context: PipelineContext) -> None:
    """Require three replicas, two of them in sync before an acknowledgement, and no leader that lacks acknowledged
    records."""
    setting = durability_setting(context)
    if setting is None:
        return
    topics = context.kafka.metadata().topics
    own = [topic.name for topic in context.pipeline.own_topics(context.mode)]
    names = [context.pipeline.source.name, *own]
    for name in (*names, *(internal for internal in INTERNAL if internal in topics)):
        replicas = min(len(p.replicas) for p in topics[name].partitions.values())
        if replicas < REPLICAS:
            raise not_durable(name, f"{replicas} replica(s)", setting, ADD_REPLICAS)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    for resource, future in context.kafka.admin.describe_configs(resources).items():
        config = retry_transient(future.result)
        in_sync = int(config["min.insync.replicas"].value or 1)
        if in_sync < IN_SYNC:
            remedy = f"Set min.insync.replicas={IN_SYNC} on it, with kafka-configs.sh."
            raise not_durable(resource.name, f"min.insync.replicas={in_sync}", setting, remedy)
        if config["unclean.leader.election.enable"].value == "true":
            remedy = "Set it to false on the topic, with kafka-configs.sh."
            raise not_durable(resource.name, "unclean.leader.election.enable=true", setting, remedy)


def not_durable(topic: str, value: str, setting: str, remedy: str) -> EosError:
    return EosError(
        f"{topic} has {value}, and {setting} requires durable topics: acknowledged records may be lost with a broker.",
        f"{remedy} On one node for development use EOS_PROFILE=dev and durability='dev'.",
    )
