"""Topics are created as declared and never altered."""

import uuid

import pytest

from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.topics import Topic, compare_topics, create_topics
from eos_assets_tests.conftest import MakeTopic


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


@pytest.mark.parametrize("name", ["", "..", "a b", "ä", "x" * 250])
def test_a_name_that_kafka_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(EosError, match="no topic name"):
        Topic(name)


def test_no_partitions_are_refused() -> None:
    with pytest.raises(EosError, match="partitions=0"):
        Topic("t", partitions=0)


def test_reading_creates_no_topic(connection: Connection) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    connection.admin.list_topics(name, timeout=10)
    assert name not in connection.metadata().topics


def test_a_cluster_that_does_not_answer_is_a_clear_error() -> None:
    with pytest.raises(EosError, match=r"No Kafka broker answers at 127\.0\.0\.1:1"):
        Connection("127.0.0.1:1").metadata(patience=1)
