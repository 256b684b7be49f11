"""Finds the transactions that hold back partitions, and ends them."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import ConfigResource, ResourceType

from eos_assets.errors import EosError
from eos_assets.kafka.connection import REQUEST_SECONDS, Connection
from eos_assets.kafka.offsets import Bounds, bounds_of
from eos_assets.kafka.reader import PartitionId
from eos_assets.kafka.retries import TIMEOUT_SECONDS
from eos_assets.kafka.transaction_client import ask_transactions

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

#: The states of a transaction at its coordinator in which partitions wait for its end, and the one that has no outcome.
ONGOING = "Ongoing"
UNFINISHED = {ONGOING, "PrepareCommit", "PrepareAbort"}
#: `transaction.max.timeout.ms` of a broker by default, and how often it looks for transactions that outlived theirs.
LONGEST_TIMEOUT_MS = 900_000
SWEEP_MS = 10_000


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is open in one partition, as its leader and the coordinator report it."""

    topic: str
    partition: int
    #: Where it begins. The last stable offset cannot pass it.
    offset: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    #: Since when it is open; of an orphan, when its producer last wrote. Milliseconds since 1970.
    since_ms: int
    #: What the coordinator knows of the producer.
    transactional_id: str | None = None
    state: str | None = None
    timeout_ms: int | None = None
    #: Whether no coordinator names it: none will end it in this partition, or this principal may not see its id.
    orphan: bool = True

    @property
    def age_seconds(self) -> float:
        return max(0.0, time.time() - self.since_ms / 1000)

    def __str__(self) -> str:
        where = f"{self.topic}/{self.partition} is held back at offset {self.offset}"
        name = f", transactional id {self.transactional_id}" if self.transactional_id else ""
        age = f"written to {self.age_seconds:.0f} s ago" if self.orphan else f"open for {self.age_seconds:.0f} s"
        state = "no coordinator names it to this principal" if self.orphan else self.state
        return f"{where} by producer {self.producer_id}, epoch {self.epoch}{name}, {age} ({state})"

    def plain(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "producer_id": self.producer_id,
            "epoch": self.epoch,
            "transactional_id": self.transactional_id,
            "state": self.state,
            "orphan": self.orphan,
            "age_seconds": round(self.age_seconds, 1),
            "timeout_seconds": None if self.timeout_ms is None else self.timeout_ms / 1000,
        }


def find_open_transactions(connection: Connection, topics: Iterable[str]) -> list[OpenTransaction]:
    """The open transactions of these topics, in the order of the topics, partitions and offsets."""
    partitions = [(topic, partition) for topic in topics for partition in connection.partitions(topic)]
    bounds = bounds_of(connection, partitions)
    return open_transactions_of(connection, [each for each in partitions if bounds[each].stable < bounds[each].high])


def open_transactions_of(connection: Connection, partitions: Collection[PartitionId]) -> list[OpenTransaction]:
    """The open transactions of partitions that are held back."""
    return ask_transactions(connection, lambda client: read_transactions(client, partitions)) if partitions else []


def describe_open_transactions(connection: Connection, bounds: Mapping[PartitionId, Bounds]) -> dict[PartitionId, str]:
    """Partition → which open transactions hold it back, for those that are. If that cannot be found out, why."""
    held = [each for each, offsets in bounds.items() if offsets.stable < offsets.high]
    texts: dict[PartitionId, str] = {}
    try:
        for transaction in open_transactions_of(connection, held):
            place = (transaction.topic, transaction.partition)
            texts[place] = f"{texts[place]}; {transaction}" if place in texts else str(transaction)
    except EosError as error:
        for topic, partition in held:
            where = f"{topic}/{partition} is held back at offset {bounds[topic, partition].stable}"
            texts[topic, partition] = f"{where} by an unknown producer. {error.problem} {error.remedy}"
    return texts


def read_transactions(client: "KafkaAdminClient", partitions: Collection[PartitionId]) -> list[OpenTransaction]:
    """Read the leaders, the coordinators, and the leaders again. A coordinator knows a transaction before a leader
    does and forgets it after it. So one that a leader has both times, but no coordinator has in between, is an
    orphan."""
    before = read_producers(client, partitions)
    coordinated = read_coordinators(client, {each.producer_id for each in before})
    remaining = {(each.topic, each.partition, each.offset) for each in read_producers(client, partitions)}
    return [
        combine(each, coordinated.get(each.producer_id))
        for each in before
        if (each.topic, each.partition, each.offset) in remaining
    ]


def read_producers(client: "KafkaAdminClient", partitions: Collection[PartitionId]) -> list[OpenTransaction]:
    """What the leaders of the partitions know: every open transaction, without its transactional id."""
    from kafka import TopicPartition

    states = client.describe_producers([TopicPartition(*each) for each in partitions])
    found = [
        OpenTransaction(
            topic=place.topic,
            partition=place.partition,
            offset=producer.current_transaction_start_offset,
            producer_id=producer.producer_id,
            epoch=producer.producer_epoch,
            coordinator_epoch=producer.coordinator_epoch,
            since_ms=producer.last_timestamp,
        )
        for place, state in states.items()
        for producer in state.active_producers
        if producer.current_transaction_start_offset >= 0
    ]
    return sorted(found, key=lambda each: (each.topic, each.partition, each.offset))


def read_coordinators(client: "KafkaAdminClient", producer_ids: set[int]) -> dict[int, tuple[str, Any]]:
    """Producer id → its transactional id, and what the coordinator knows of its transaction."""
    from kafka.errors import TransactionalIdNotFoundError

    listings = client.list_transactions(producer_id_filters=sorted(producer_ids)) if producer_ids else {}
    found = {}
    for listing in (each for of_broker in listings.values() for each in of_broker):
        try:
            (description,) = client.describe_transactions([listing.transactional_id]).values()
        except TransactionalIdNotFoundError:
            continue  # it has just expired
        found[description.producer_id] = (listing.transactional_id, description)
    return found


def combine(found: OpenTransaction, coordinated: tuple[str, Any] | None) -> OpenTransaction:
    """Add what the coordinator knows. It ends the transaction in this partition only if it names the partition."""
    if coordinated is None:
        return found
    transactional_id, description = coordinated
    state = str(description.state.value)
    named = state in UNFINISHED and (found.topic, found.partition) in description.topic_partitions
    return replace(
        found,
        since_ms=description.transaction_start_time_ms if named else found.since_ms,
        transactional_id=transactional_id,
        state=state,
        timeout_ms=description.transaction_timeout_ms,
        orphan=not named,
    )


def abort_transactions(connection: Connection, transactions: Collection[OpenTransaction]) -> None:
    """Abort the transactions of one producer: those that its coordinator knows in all partitions at once, orphans in
    each partition."""
    orphans = [each for each in transactions if each.orphan]
    known = {each.transactional_id: each for each in transactions if not each.orphan}
    for transaction in (*orphans, *known.values()):
        refuse_early(connection, transaction)
    for transaction in known.values():
        fence(connection, transaction)
    if orphans:
        ask_transactions(connection, lambda client: write_abort_markers(client, orphans))


def refuse_early(connection: Connection, transaction: OpenTransaction) -> None:
    """Refuse to abort what may still end by itself, or has its outcome."""
    if not transaction.orphan:
        if transaction.state != ONGOING:
            raise EosError(
                f"{transaction}: its outcome is decided, and the coordinator is writing it.",
                "Wait until the coordinator has written it. Check the brokers with `eos doctor` if it persists.",
            )
        return
    oldest = (longest_timeout_ms(connection) + SWEEP_MS) / 1000
    if transaction.age_seconds < oldest:
        raise EosError(
            f"{transaction}: it is younger than the longest transaction timeout of the brokers, so it may be a "
            f"transaction whose coordinator is unavailable, or whose id {connection.security.principal} may not see.",
            f"Try again when it was written to {oldest:.0f} s ago.",
        )


def longest_timeout_ms(connection: Connection) -> int:
    """`transaction.max.timeout.ms` of the brokers, or its default where this principal may not see it."""
    resource = ConfigResource(ResourceType.BROKER, str(min(connection.metadata().brokers)))
    try:
        future = connection.admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource]
        return int(future.result()["transaction.max.timeout.ms"].value)
    except KafkaException:
        return LONGEST_TIMEOUT_MS


def fence(connection: Connection, transaction: OpenTransaction) -> None:
    """Start a session with the transactional id: its coordinator aborts the open transaction in all its partitions,
    and the producer can commit nothing more. An abort marker in a single partition would tear the transaction."""
    options = {"transactional.id": transaction.transactional_id, "transaction.timeout.ms": transaction.timeout_ms}
    Producer({**connection.config(), **options}).init_transactions(TIMEOUT_SECONDS)


def write_abort_markers(client: "KafkaAdminClient", orphans: Iterable[OpenTransaction]) -> None:
    """End each orphan in its partition. The leader refuses a marker whose coordinator epoch is older than the last one
    it has of the producer, -1 too, which kafka-python gives by default."""
    from kafka import TopicPartition
    from kafka.admin import AbortTransactionSpec

    for orphan in orphans:
        place, coordinator_epoch = TopicPartition(orphan.topic, orphan.partition), max(0, orphan.coordinator_epoch)
        client.abort_transaction(AbortTransactionSpec(place, orphan.producer_id, orphan.epoch, coordinator_epoch))
