"""Can the pipeline keep its state, and is the state the one that it began with?"""

from collections.abc import Iterable

from eos_assets.context import PipelineContext
from eos_assets.declare.generation import next_generation
from eos_assets.errors import EosError
from eos_assets.log.ledger import Genesis
from eos_assets.state.state import State


def check_state(context: PipelineContext) -> None:
    """Refuse state without transactions, and a source whose keys do not stay in their partitions."""
    pipeline = context.pipeline
    if not pipeline.stateful:
        return
    if not context.exactly_once:
        raise EosError(
            f"Pipeline {pipeline.name} keeps state, and mode {context.mode} does not commit state and output together.",
            "Run it exactly once.",
        )
    existing = context.kafka.metadata().topics
    if pipeline.source.name not in existing:
        return  # the question about topics comes next
    source = len(existing[pipeline.source.name].partitions)
    for topic in pipeline.changelogs():
        if topic in existing and len(existing[topic].partitions) != source:
            raise source_has_grown(context, len(existing[topic].partitions), source)


def check_state_genesis(context: PipelineContext, genesis: Genesis, partitions: int) -> None:
    """Compare a pipeline with its genesis: it keeps state from its first record on or never, and its source keeps its
    number of partitions."""
    pipeline = context.pipeline
    began_with_state = context.names.changelog in genesis.topic_ids
    if pipeline.stateful != began_with_state:
        began, declared = ("with", "without") if began_with_state else ("without", "with")
        raise EosError(
            f"Pipeline {pipeline.name} began {began} state, and is declared {declared} it.",
            f"Give it another name, or {next_generation(pipeline)}.",
        )
    if genesis.partitions is not None and genesis.partitions != partitions:
        raise source_has_grown(context, genesis.partitions, partitions)


def check_state_columns(context: PipelineContext, geneses: Iterable[Genesis | None]) -> None:
    """Compare the declared columns of the state with those in the geneses. Only stateful pipelines have any."""
    State(context).check_columns(geneses)


def source_has_grown(context: PipelineContext, before: int, now: int) -> EosError:
    pipeline = context.pipeline
    return EosError(
        f"{pipeline.source.name} has {now} partitions, and {pipeline.name} keeps its state in {before}: with another "
        "number of partitions a key moves away from its state. Nothing was written.",
        f"To go on with {now} partitions, {next_generation(pipeline)} and partitions={now} for its source. Every key "
        "must be in the partition where it belongs now: rewrite the records of a source that has grown.",
    )
