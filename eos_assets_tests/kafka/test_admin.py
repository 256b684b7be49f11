"""Topics are created as declared and never altered."""

import re
import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka.admin import ClusterMetadata

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.admin import compare_topics, create, create_topics, known_brokers, refuse_fragile
from eos_assets.kafka.connection import Connection
from eos_assets_tests.plugin import MakeTopic


def test_a_missing_topic_is_created_once(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    assert [report.outcome for report in create_topics([topic], connection)] == ["present"]
    assert len(connection.metadata().topics[topic.name].partitions) == 2


def test_a_compacted_topic_with_limits_is_as_declared(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(
        partitions=1, compacted=True, retention_ms=-1, max_message_bytes=2_000_000, min_insync_replicas=1
    )
    assert compare_topics([topic], connection)[0].outcome == "present"


def test_a_topic_that_differs_is_reported_and_left_alone(connection: Connection, make_topic: MakeTopic) -> None:
    made = make_topic(partitions=2)
    declared = Topic(made.name, partitions=3, retention_ms=1000, compacted=True)
    (report,) = create_topics([declared], connection)
    assert report.outcome == "different"
    assert len(report.differences) == 3
    assert "partitions is 2, declared 3" in map(str, report.differences)
    assert compare_topics([made], connection)[0].outcome == "present"


def test_more_replicas_than_brokers_are_refused_before_anything_is_created(connection: Connection) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    with pytest.raises(EosError, match="99 replicas"):
        create_topics([Topic(name, replication=99)], connection)
    assert name not in connection.metadata().topics


def test_more_in_sync_replicas_than_replicas_are_refused(connection: Connection) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    with pytest.raises(EosError, match=f"Topic {name} declares min_insync_replicas=9"):
        create_topics([Topic(name, min_insync_replicas=9)], connection)
    assert name not in connection.metadata().topics


@pytest.mark.parametrize(
    ("topic", "live", "problem"),
    [
        (Topic("t"), 2, "2 live broker(s), not 3"),
        (Topic("t", replication=1), 3, "replication=1, not 3"),
        (Topic("t", min_insync_replicas=1), 3, "min_insync_replicas=1, not 2"),
    ],
)
def test_production_creates_no_fragile_topic(topic: Topic, live: int, problem: str) -> None:
    refuse_fragile(Topic("t"), 3, 3)
    with pytest.raises(EosError, match=re.escape(f"Topic t is not created: EOS_PROFILE=production, and {problem}")):
        refuse_fragile(topic, 3, live)


def test_production_refuses_before_anything_is_created(connection: Connection) -> None:
    if len(connection.metadata().brokers) >= 3:
        pytest.skip("the brokers of EOS_BOOTSTRAP_SERVERS are enough")
    name = f"test-{uuid.uuid4().hex[:12]}"
    with pytest.raises(EosError, match=f"Topic {name} is not created"):
        create_topics([Topic(name)], replace(connection, production=True))
    assert name not in connection.metadata().topics


def test_a_broker_that_is_down_is_still_a_broker() -> None:
    partition = SimpleNamespace(replicas=[2, 3])
    topics = {"t": SimpleNamespace(partitions={0: partition})}
    metadata = cast(ClusterMetadata, SimpleNamespace(brokers={1: None, 2: None}, topics=topics))
    assert known_brokers(metadata) == 3


def test_a_topic_that_another_client_creates_meanwhile_is_compared(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"

    def create_after_another_client(topic: Topic, brokers: int, connection: Connection) -> bool:
        assert create(replace(topic, partitions=1), brokers, connection)
        return create(topic, brokers, connection)

    monkeypatch.setattr("eos_assets.kafka.admin.create", create_after_another_client)
    (report,) = create_topics([Topic(name, partitions=2)], connection)
    connection.admin.delete_topics([name])[name].result()
    assert report.outcome == "different"
    assert list(map(str, report.differences)) == ["partitions is 1, declared 2"]


@pytest.mark.parametrize("name", ["", "..", "a b", "ä", "x" * 250])
def test_a_name_that_kafka_does_not_accept_is_refused(name: str) -> None:
    with pytest.raises(EosError, match="is not a valid topic name"):
        Topic(name)


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(EosError, match="partitions=0"):
        Topic("t", partitions=0)


def test_reading_creates_no_topic(connection: Connection) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    connection.admin.list_topics(name, timeout=10)
    assert name not in connection.metadata().topics


def test_a_cluster_that_does_not_answer_is_a_clear_error() -> None:
    with pytest.raises(EosError, match=r"No Kafka broker answers at 127\.0\.0\.1:1"):
        Connection("127.0.0.1:1").metadata(seconds=1)
