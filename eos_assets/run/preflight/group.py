"""Is the pipeline's consumer group free of other members?"""

from eos_assets.context import PipelineContext
from eos_assets.errors import EosError
from eos_assets.kafka.connection import REQUEST_SECONDS


def check_group(context: PipelineContext) -> None:
    """Refuse a group that has members: their commits would move the pipeline's offsets."""
    group = context.names.group
    described = context.kafka.ask(
        lambda admin: admin.describe_consumer_groups([group], request_timeout=REQUEST_SECONDS)[group].result()
    )
    if described.members:
        members = ", ".join(f"{m.client_id} at {m.host}" for m in described.members)
        raise EosError(
            f"The consumer group {group} has {len(described.members)} active member(s): {members}.",
            f"Stop them: the group belongs to the pipeline {context.pipeline.name}. Use another group to read the "
            "source.",
        )
