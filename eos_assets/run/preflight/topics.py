"""What must hold before a run: topics, ids, durability, group, timeouts. Refuses with the reason; writes nothing."""

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import ConfigResource, NewPartitions, ResourceType

from eos_assets.declare.modes import Mode
from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.admin import await_visible, compare_topics, has_partitions
from eos_assets.kafka.auth_errors import denied_resource
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import await_stable, bounds
from eos_assets.kafka.reader import read_partitions
from eos_assets.kafka.retries import retry_transient
from eos_assets.log import ledger
from eos_assets.log.ledger import Genesis
from eos_assets.run.plan import PartitionPlan, existing_topics
from eos_assets.run.preflight.durability import check_durability
from eos_assets.run.preflight.permissions import check_permissions

#: How long the end of a transaction may take to reach the ledger, behind the answer to its commit.
LEDGER_SECONDS = 10.0


def check_topics(pipeline: Pipeline, connection: Connection, mode: Mode) -> dict[str, int]:
    """All topics are there; the ledger and the provenance grow with the source. Returns the partitions of each."""
    check_permissions(pipeline, connection, mode)  # first: a topic that we may not see looks like one that is missing
    wanted = [topic.name for topic in (pipeline.source, *pipeline.own_topics(mode))]
    existing = existing_topics(pipeline, connection, wanted, mode)
    names = pipeline.names(mode)
    check_declarations(pipeline, connection, mode)
    partitions = {name: len(existing[name].partitions) for name in wanted}
    sources = partitions[pipeline.source.name]
    for topic in (names.ledger, names.provenance, names.dead_letters):
        if partitions[topic] < sources:
            grow(connection, topic, sources)
            partitions[topic] = sources
    check_durability(pipeline, connection, mode)
    return partitions


def check_declarations(pipeline: Pipeline, connection: Connection, mode: Mode) -> None:
    """The topics are as declared, in all that a declaration says. More source partitions are growth, which is fine."""
    sinks = {pipeline.names(mode).sink(sink.name) for sink in pipeline.sinks}
    for report in compare_topics((pipeline.source, *pipeline.own_topics(mode)), connection):
        topic = report.topic
        for wrong in report.differences:
            if topic is pipeline.source:  # it belongs to somebody else, and may grow
                tolerable = wrong.setting != "partitions" or int(wrong.found or 0) > topic.partitions
            elif topic.name in sinks:
                tolerable = False
            else:
                tolerable = wrong.setting == "partitions"  # our own topics follow the source
            undeclared = wrong.setting == "min.insync.replicas" and topic.min_insync_replicas is None
            if not tolerable and not undeclared:
                raise EosError(
                    f"{topic.name} is not as {pipeline.name} declares it: {wrong}.",
                    "Change the topic with Kafka's own tools, or the declaration; nothing was written.",
                )


def grow(connection: Connection, topic: str, partitions: int) -> None:
    """Our own topics follow the source: partition p of the ledger belongs to partition p of the source."""
    for future in connection.admin.create_partitions([NewPartitions(topic, partitions)]).values():
        try:
            future.result()
        except KafkaException as error:
            another_was_faster = error.args[0].code() == KafkaError.INVALID_PARTITIONS
            if another_was_faster and has_partitions(topic, partitions, connection):
                continue
            if not denied_resource(error.args[0]):
                raise
            principal = connection.security.principal
            raise EosError(
                f"The source has {partitions} partitions now, {topic} must grow with it, and {principal} lacks Alter "
                f"on topic {topic}. Nothing was written.",
                f"Grant it (`eos acls --creation` prints the command), or give {topic} {partitions} partitions.",
            ) from error
    await_visible({topic}, connection)


def check_genesis(
    pipeline: Pipeline, connection: Connection, mode: Mode, plans: list[PartitionPlan], partitions: dict[str, int]
) -> dict[str, str]:
    """The topics, which have so many partitions, are those that the ledger speaks of. Returns the ids for a new
    genesis."""
    names = pipeline.names(mode)
    topics = [pipeline.source.name, names.ledger, names.dead_letters, *(names.sink(s.name) for s in pipeline.sinks)]
    topics += pipeline.changelogs(mode)
    ids = connection.topic_ids(topics)
    if mode is not Mode.EXACTLY_ONCE:
        return ids
    geneses = {plan.partition: plan.genesis for plan in plans}
    geneses |= late_geneses(pipeline, connection, [p for p, genesis in geneses.items() if genesis is None])
    for genesis in geneses.values():
        if genesis:
            check_kind(pipeline, genesis, partitions[pipeline.source.name])
        check_ids(pipeline, genesis, ids)
    fresh = [partition for partition, genesis in geneses.items() if genesis is None]
    if len(fresh) < len(plans):
        return ids
    # One in a partition of the ledger that is not planned; the fresh ones are empty.
    began = first_genesis(connection, names.ledger, sorted(set(range(partitions[names.ledger])) - set(fresh)))
    if began is None and not pipeline.shared_sink:
        began = check_sinks(pipeline, connection, partitions)
    check_ids(pipeline, began, ids)
    return ids


def late_geneses(pipeline: Pipeline, connection: Connection, partitions: list[int]) -> dict[int, Genesis]:
    """The geneses that another run has written since we planned: provenance without one is refused."""
    names = pipeline.names()
    found = {}
    for visible in list(read_partitions(connection, {(names.provenance, p): 0 for p in partitions}, limit=1)):
        partition = visible.partition() or 0
        genesis = genesis_now(connection, names.ledger, [partition])
        if genesis is None:
            raise not_empty("The ledger is empty, but its provenance topic is not", visible)
        found[partition] = genesis
    return found


def check_sinks(pipeline: Pipeline, connection: Connection, partitions: dict[str, int]) -> Genesis | None:
    """Sinks that hold records before the ledger does are refused. If another run began meanwhile: its genesis."""
    names = pipeline.names()
    sinks = [names.sink(sink.name) for sink in pipeline.sinks]
    places = {(sink, partition): 0 for sink in sinks for partition in range(partitions[sink])}
    visible = next(read_partitions(connection, places), None)
    if visible is None:
        return None
    genesis = genesis_now(connection, names.ledger, list(range(partitions[names.ledger])))
    if genesis is None:
        raise not_empty("The ledger is empty, but the sink is not", visible)
    return genesis


def genesis_now(connection: Connection, topic: str, partitions: list[int]) -> Genesis | None:
    """A genesis in one of these partitions of a ledger. The end of a transaction may reach them later than the topics
    in which we have seen it, so what is open there is awaited."""
    there = bounds(connection, topic, partitions)
    await_stable(connection, [topic], {(topic, p): b.high for p, b in there.items()}, LEDGER_SECONDS)
    return first_genesis(connection, topic, partitions)


def check_ids(pipeline: Pipeline, genesis: Genesis | None, ids: dict[str, str]) -> None:
    """The topics are those of the genesis, and the source is among them: offsets of another one mean other records."""
    if genesis is None:
        return
    if pipeline.source.name not in genesis.topic_ids:
        ours = {*ids, *pipeline.changelogs()}
        before = next((topic for topic in genesis.topic_ids if topic not in ours), "another topic")
        raise EosError(
            f"{pipeline.name} began with {before} as its source, and is declared with {pipeline.source.name}: its "
            "positions are offsets of the former, and would skip records of the latter.",
            f"Give the pipeline another name, or declare generation={pipeline.generation + 1} with a new sink.",
        )
    for topic, known in genesis.topic_ids.items():
        if topic in ids and ids[topic] != known:
            raise EosError(
                f"{topic} is not the topic that {pipeline.name} began with: it was deleted and created again "
                f"(id {known} then, {ids[topic]} now).",
                "A new topic starts at offset 0 again, so going on could double or lose records. Restore the old "
                f"topic, or begin anew: declare generation={pipeline.generation + 1} with a new sink.",
            )


def first_genesis(connection: Connection, topic: str, partitions: list[int]) -> Genesis | None:
    for first in read_partitions(connection, {(topic, partition): 0 for partition in partitions}, limit=1):
        found = ledger.read(first)
        if isinstance(found, Genesis):
            return found
    return None


def check_kind(pipeline: Pipeline, genesis: Genesis, partitions: int) -> None:
    """A pipeline keeps its state from its first record on, or never; and its source, which has so many, its
    partitions."""
    names = pipeline.names()
    if pipeline.stateful != (names.changelog in genesis.topic_ids):
        began, now = ("with", "without") if not pipeline.stateful else ("without", "with")
        raise EosError(
            f"{pipeline.name} began {began} state, and is declared {now} it.",
            f"Give it another name, or begin a new generation: delete {names.ledger} and all that it wrote.",
        )
    if genesis.partitions is not None and genesis.partitions != partitions:
        raise grown(pipeline, genesis.partitions, partitions)


def check_state(pipeline: Pipeline, connection: Connection, mode: Mode) -> None:
    """State needs transactions, and a source whose keys stay where they are."""
    if not pipeline.stateful:
        return
    if mode is not Mode.EXACTLY_ONCE:
        raise EosError(
            f"{pipeline.name} keeps state, and {mode} cannot keep state and output one.", "Run it exactly once."
        )
    existing = connection.metadata().topics
    sources = len(existing[pipeline.source.name].partitions) if pipeline.source.name in existing else 0
    for topic in pipeline.changelogs():
        if topic in existing and sources and len(existing[topic].partitions) != sources:
            raise grown(pipeline, len(existing[topic].partitions), sources)


def grown(pipeline: Pipeline, before: int, now: int) -> EosError:
    return EosError(
        f"{pipeline.source.name} has {now} partitions, and {pipeline.name} keeps its state in {before}: with another "
        "number of partitions a key moves away from its state.",
        f"Begin a new generation: give {pipeline.name} a new name and new sinks, and declare its source with "
        f"partitions={now}, in which every key lies where it belongs now (write it anew, where it grew). Nothing was "
        "written.",
    )


def not_empty(why: str, visible: Message) -> EosError:
    """For a reader of committed data: aborted attempts leave offsets behind, and no records."""
    return EosError(
        f"{why}: {visible.topic()}/{visible.partition()} holds a record at offset {visible.offset()}.",
        "Declare shared_sink=True if others write there too, or an earlier generation did; else the ledger was "
        "lost, and going on would write everything a second time: restore it, or begin with a new sink.",
    )


def check_group(pipeline: Pipeline, connection: Connection, mode: Mode) -> None:
    """Nobody else may be a member of the pipeline's group: its commits would move our offsets."""
    group = pipeline.names(mode).group
    described = retry_transient(lambda: connection.admin.describe_consumer_groups([group])[group].result())
    if described.members:
        who = ", ".join(f"{m.client_id} at {m.host}" for m in described.members)
        raise EosError(
            f"The consumer group {group} has {len(described.members)} active member(s): {who}.",
            f"Stop them: the group belongs to the pipeline {pipeline.name}. Readers of the source need another group.",
        )


def largest_batch(pipeline: Pipeline, connection: Connection, mode: Mode) -> int:
    """The most bytes that each topic which the pipeline writes takes at a time: brokers refuse a batch as a whole."""
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in pipeline.own_topics(mode)]
    configs = [retry_transient(future.result) for future in connection.admin.describe_configs(resources).values()]
    return min(int(config["max.message.bytes"].value) for config in configs)


def check_timeout(pipeline: Pipeline, connection: Connection) -> None:
    """The broker must allow the transaction timeout; its maximum is 15 minutes unless configured."""
    broker = str(next(iter(connection.metadata().brokers)))
    resource = ConfigResource(ResourceType.BROKER, broker)
    try:
        config = connection.admin.describe_configs([resource])[resource].result()
    except KafkaException as error:
        if denied_resource(error.args[0]):
            return  # who may not look at brokers is told by init_transactions, before any output
        raise
    allowed = int(config["transaction.max.timeout.ms"].value)
    if pipeline.batching.timeout_ms > allowed:
        raise EosError(
            f"Pipeline {pipeline.name} declares Batching(timeout_ms={pipeline.batching.timeout_ms}), and the "
            f"broker allows {allowed} (transaction.max.timeout.ms).",
            "Declare a shorter timeout and smaller slices.",
        )
