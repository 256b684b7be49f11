"""The open transactions of other producers: who they are, and how they are ended."""

import sys
import uuid

import pytest
from confluent_kafka import KafkaException, Producer

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import Bounds, bounds
from eos_assets.kafka.open_transactions import (
    OpenTransaction,
    abort_transactions,
    describe_open_transactions,
    find_open_transactions,
    refuse_early,
)
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.waiting import wait_for


@pytest.fixture
def transactional_id() -> str:
    return f"other/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def other(connection: Connection, transactional_id: str) -> Producer:
    """Another producer, with a transaction."""
    producer = Producer(connection.config(transactional_id=transactional_id, transaction_timeout_ms=50_000))
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def is_held_back(connection: Connection, topic: str) -> bool:
    return any(each.stable < each.high for each in bounds(connection, topic).values())


def test_an_open_transaction_is_found_with_its_producer(
    connection: Connection, make_topic: MakeTopic, other: Producer, transactional_id: str
) -> None:
    topic = make_topic(partitions=2).name
    Producer(connection.config()).produce(topic, b"before", partition=1)
    for partition in (0, 1):
        other.produce(topic, b"open", partition=partition)
    other.flush()
    wait_for(lambda: is_held_back(connection, topic))
    found = find_open_transactions(connection, [topic])
    assert [(each.partition, each.transactional_id, each.state, each.orphan) for each in found] == [
        (0, transactional_id, "Ongoing", False),
        (1, transactional_id, "Ongoing", False),
    ]
    assert [each.offset for each in found] == [each.stable for each in bounds(connection, topic).values()]
    assert {each.timeout_ms for each in found} == {50_000}
    assert 0 <= found[0].age_seconds < 60
    described = describe_open_transactions(connection, {(topic, 0): bounds(connection, topic)[0]})
    assert described[topic, 0].startswith(
        f"{topic}/0 is held back at offset {found[0].offset} by producer {found[0].producer_id}, epoch "
        f"{found[0].epoch}, transactional id {transactional_id}, open for "
    )
    other.commit_transaction(30)
    wait_for(lambda: not is_held_back(connection, topic))
    assert find_open_transactions(connection, [topic]) == []


def test_an_abort_ends_a_transaction_in_all_its_partitions_and_fences_its_producer(
    connection: Connection, make_topic: MakeTopic, other: Producer
) -> None:
    topic = make_topic(partitions=2).name
    for partition in (0, 1):
        other.produce(topic, b"open", partition=partition)
    other.flush()
    first, _ = find_open_transactions(connection, [topic])
    abort_transactions(connection, [first])
    wait_for(lambda: not is_held_back(connection, topic))
    with pytest.raises(KafkaException, match="fenced"):
        other.commit_transaction(30)


ORPHAN = OpenTransaction("t", 0, 7, 4242, 3, -1, since_ms=0)


def test_a_decided_transaction_is_not_aborted() -> None:
    deciding = OpenTransaction("t", 0, 7, 4, 0, 0, 0, "id", "PrepareCommit", 60_000, orphan=False)
    with pytest.raises(EosError, match="its outcome is decided"):
        refuse_early(Connection("nowhere:9092"), deciding)


def test_an_orphan_is_described_without_a_transactional_id() -> None:
    text = str(ORPHAN)
    assert text.startswith("t/0 is held back at offset 7 by producer 4242, epoch 3, written to ")
    assert text.endswith("s ago (no coordinator names it to this principal)")


def test_without_the_client_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan and a proof go on without the names; the command refuses."""
    monkeypatch.setitem(sys.modules, "kafka", None)
    nowhere = Connection("nowhere:9092")
    assert describe_open_transactions(nowhere, {("t", 0): Bounds(0, 9, 9)}) == {}
    described = describe_open_transactions(nowhere, {("t", 0): Bounds(0, 5, 9)})
    assert described["t", 0].startswith("t/0 is held back at offset 5 by an unknown producer. ")
    assert described["t", 0].endswith("pip install 'eos-assets[transactions]'.")
