"""Does the ledger belong to these topics? If it is empty, are the sinks empty too?"""

from confluent_kafka import Message

from eos_assets.context import PipelineContext
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import await_stable, bounds
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import Genesis
from eos_assets.run.preflight.state import check_state_genesis
from eos_assets.run.preflight.topic_ids import check_ids
from eos_assets.run.report import LEDGER_SECONDS

#: Source partition → the first entry of its ledger; None where the ledger is empty.
Geneses = dict[int, Genesis | None]


def check_genesis(context: PipelineContext, planned: Geneses, partitions: dict[str, int]) -> dict[str, str]:
    """Compare the topics with those that the ledger names, and return their ids for a new genesis.

    Args:
        context: the pipeline and where it runs.
        planned: the geneses of the partitions that the run is about to write.
        partitions: the number of partitions of each topic.
    """
    pipeline, names = context.pipeline, context.names
    topics = [pipeline.source.name, names.ledger, names.dead_letters, *(names.sink(s.name) for s in pipeline.sinks)]
    topics += pipeline.changelogs(context.mode)
    ids = context.kafka.topic_ids(topics)
    if not context.exactly_once:
        return ids
    geneses = planned | late_geneses(context, [p for p, g in planned.items() if g is None], partitions)
    for genesis in geneses.values():
        if genesis:
            check_state_genesis(context, genesis, partitions[pipeline.source.name])
        check_ids(pipeline, genesis, ids)
    empty = [partition for partition, genesis in geneses.items() if genesis is None]
    if len(empty) == len(geneses):
        check_ids(pipeline, other_genesis(context, empty, partitions), ids)
    return ids


def late_geneses(context: PipelineContext, empty: list[int], partitions: dict[str, int]) -> Geneses:
    """The geneses that another run has written since the plan, when these ledger partitions were empty. Provenance
    without a genesis is refused."""
    names = context.names
    starts = {(names.provenance, p): 0 for p in empty if p < partitions[names.provenance]}
    geneses: Geneses = {}
    for message in list(read_partitions(context.kafka, starts, limit=1)):
        partition = message.partition() or 0
        genesis = await_genesis(context.kafka, names.ledger, [partition])
        if genesis is None:
            raise not_empty("The ledger is empty, but its provenance topic is not", message)
        geneses[partition] = genesis
    return geneses


def other_genesis(context: PipelineContext, empty: list[int], partitions: dict[str, int]) -> Genesis | None:
    """A genesis of a ledger partition that is not planned. If there is none, the sinks must be empty."""
    others = sorted(set(range(partitions[context.names.ledger])) - set(empty))
    genesis = first_genesis(context.kafka, context.names.ledger, others)
    if genesis is None and not context.pipeline.shared_sink:
        genesis = check_sinks(context, partitions)
    return genesis


def check_sinks(context: PipelineContext, partitions: dict[str, int]) -> Genesis | None:
    """Refuse sinks that hold records while the ledger is empty. Returns the genesis of another run that began
    meanwhile."""
    names = context.names
    sinks = [names.sink(sink.name) for sink in context.pipeline.sinks]
    starts = {(sink, partition): 0 for sink in sinks for partition in range(partitions[sink])}
    message = next(read_partitions(context.kafka, starts), None)
    if message is None:
        return None
    genesis = await_genesis(context.kafka, names.ledger, list(range(partitions[names.ledger])))
    if genesis is None:
        raise not_empty("The ledger is empty, but the sink is not", message)
    return genesis


def await_genesis(connection: Connection, topic: str, partitions: list[int]) -> Genesis | None:
    """A genesis in one of these partitions of a ledger. A transaction may end later there than in the topic that showed
    its records, so open transactions in the ledger are awaited."""
    ends = {(topic, p): each.high for p, each in bounds(connection, topic, partitions).items()}
    await_stable(connection, [topic], ends, LEDGER_SECONDS)
    return first_genesis(connection, topic, partitions)


def first_genesis(connection: Connection, topic: str, partitions: list[int]) -> Genesis | None:
    for message in read_partitions(connection, {(topic, partition): 0 for partition in partitions}, limit=1):
        entry = ledger.read(message)
        if isinstance(entry, Genesis):
            return entry
    return None


def not_empty(problem: str, message: Message) -> EosError:
    """The error for a committed record. Aborted attempts leave offsets without records, which do not count."""
    return EosError(
        f"{problem}: {message.topic()}/{message.partition()} holds a record at offset {message.offset()}. If the "
        "ledger was lost, a run would write everything a second time. Nothing was written.",
        "Declare shared_sink=True if other producers write there, or an earlier generation did; else restore the "
        "ledger, or declare a new sink.",
    )
