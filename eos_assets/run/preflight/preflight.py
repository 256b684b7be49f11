"""Asks the questions in order. The first one that is answered with no ends the run with a remedy."""

from dataclasses import dataclass

from eos_assets.context import PipelineContext
from eos_assets.kafka.admin import compare_topics
from eos_assets.run.plan import PartitionPlan, Planner
from eos_assets.run.preflight.declarations import check_declarations
from eos_assets.run.preflight.durability import check_durability
from eos_assets.run.preflight.genesis import check_genesis
from eos_assets.run.preflight.group import check_group
from eos_assets.run.preflight.permissions import check_permissions
from eos_assets.run.preflight.spark_version import check_spark
from eos_assets.run.preflight.state import check_state, check_state_columns
from eos_assets.run.preflight.timeout import check_timeout
from eos_assets.run.preflight.topics import existing_topics
from eos_assets.transform.business_key import check_business_key


@dataclass(frozen=True)
class Preflight:
    """What the answers leave for the run: the first plan, and the facts that its jobs need."""

    plans: list[PartitionPlan]
    #: Topic → its number of partitions, before the run lets its own topics grow with the source.
    partitions: dict[str, int]
    #: Topic → its id, for a new genesis.
    topic_ids: dict[str, str]


def run_preflight(context: PipelineContext, planner: Planner, accepted_spark: str | None = None) -> Preflight:
    """Ask every question. Nothing is written."""
    check_spark(context.spark, accepted_spark)
    check_business_key(context.pipeline, context.spark)
    check_state(context)
    partitions = check_topics(context)
    check_timeout(context)
    check_group(context)
    plans = planner.plan()
    geneses = {plan.partition: plan.genesis for plan in plans}
    topic_ids = check_genesis(context, geneses, partitions)
    check_state_columns(context, geneses.values())
    return Preflight(plans, partitions, topic_ids)


def check_topics(context: PipelineContext) -> dict[str, int]:
    """Ask the questions about topics, and return the number of partitions of each. Permissions come first: a topic that
    the client may not see looks like one that is missing."""
    check_permissions(context.pipeline, context.kafka, context.mode)
    topics = [context.pipeline.source, *context.pipeline.own_topics(context.mode)]
    names = [topic.name for topic in topics]
    existing = existing_topics(context.pipeline, context.kafka, names, context.mode)
    check_declarations(context, compare_topics(topics, context.kafka))
    check_durability(context)
    return {name: len(existing[name].partitions) for name in names}
