"""Do the brokers allow the transaction timeout?"""

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from eos_assets.context import PipelineContext
from eos_assets.errors import EosError
from eos_assets.kafka.auth_errors import denied_resource


def check_timeout(context: PipelineContext) -> None:
    """Refuse a timeout above the broker's maximum, which is 15 minutes unless it is configured."""
    pipeline = context.pipeline
    broker = str(next(iter(context.kafka.metadata().brokers)))
    resource = ConfigResource(ResourceType.BROKER, broker)
    try:
        config = context.kafka.admin.describe_configs([resource])[resource].result()
    except KafkaException as error:
        if denied_resource(error.args[0]):
            return  # without the permission to read it, `init_transactions` fails instead, before any output
        raise
    allowed = int(config["transaction.max.timeout.ms"].value)
    if pipeline.batching.timeout_ms > allowed:
        raise EosError(
            f"Pipeline {pipeline.name} declares Batching(timeout_ms={pipeline.batching.timeout_ms}), and the broker "
            f"allows {allowed} (transaction.max.timeout.ms).",
            "Declare a shorter timeout and smaller transactions.",
        )
