"""A fill writes each integer exactly once and in order, where a Java client would put it, even if it is interrupted."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import NewPartitions

from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.experiment.fill import fill, parse_integer, refuse_grown
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets_tests.kafka.reading import read_integers, read_values
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.waiting import wait_for


@pytest.fixture
def own_cluster(settings: Settings, tmp_path: Path) -> Iterator[KafkaCluster]:
    """A broker that the test may kill."""
    with KafkaCluster(tmp_path / "kafka", settings=settings) as cluster:
        yield cluster


def test_fills_continue_where_the_last_one_ended(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3).name
    fill(connection, topic, 1000)
    second = fill(connection, topic, 500)
    assert (second.first, second.next, second.written, second.completed) == (1000, 1500, 500, 0)
    assert read_integers(connection.bootstrap_servers, topic) == list(range(1500))


def test_each_integer_is_where_a_java_client_would_put_it(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=5).name
    fill(connection, topic, 3000)
    for partition, values in read_values(connection.bootstrap_servers, topic).items():
        assert set(partitions_of(pa.array(values, pa.binary()), 5).tolist()) <= {partition}


def test_more_partitions_than_integers_and_one_partition(connection: Connection, make_topic: MakeTopic) -> None:
    for partitions in (1, 8):
        topic = make_topic(partitions=partitions).name
        fill(connection, topic, 1)
        fill(connection, topic, 4)
        assert read_integers(connection.bootstrap_servers, topic) == list(range(5))


def test_an_interrupted_fill_is_completed_by_the_next(connection: Connection, make_topic: MakeTopic) -> None:
    """A killed fill may leave one partition far ahead of the others."""
    topic = make_topic(partitions=3).name
    keys = [b"%d" % n for n in range(1000)]
    routes = partitions_of(pa.array(keys, pa.binary()), 3)
    producer = Producer(connection.config())
    for key, partition in zip(keys, routes, strict=True):
        if int(key) < (1000 if partition == 0 else 300):
            producer.produce(topic, key=key, value=key, partition=int(partition))
    producer.flush()
    filled = fill(connection, topic, 10)
    assert filled.completed > 400
    assert read_integers(connection.bootstrap_servers, topic) == list(range(filled.next))


def test_a_killed_fill_is_completed_by_the_next(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3).name
    command = [sys.executable, "-m", "eos_assets.cli", "fill", topic, "--count", "3000000", "--rate", "200000"]
    env = {**os.environ, "EOS_BOOTSTRAP_SERVERS": connection.bootstrap_servers}
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as child:
        wait_for(lambda: sum(stable_ends(connection, topic, [0, 1, 2]).values()) > 1000)
        child.send_signal(signal.SIGKILL)
    filled = fill(connection, topic, 1000)
    assert filled.next < 3_000_000
    assert read_integers(connection.bootstrap_servers, topic) == list(range(filled.next))


def test_a_fill_during_a_broker_restart_ends_with_every_integer_once(own_cluster: KafkaCluster) -> None:
    connection = Connection(own_cluster.bootstrap_servers)
    create_topics([Topic("t", partitions=3)], connection)
    acknowledged = [0]
    killed = threading.Event()

    def kill_and_restart() -> None:
        wait_for(lambda: acknowledged[0] > 20_000)
        own_cluster.kill(1)
        killed.set()
        own_cluster.restart(1)

    restart = threading.Thread(target=kill_and_restart)
    restart.start()
    filled = fill(connection, "t", 400_000, rate=150_000, progress=lambda n: acknowledged.__setitem__(0, n))
    restart.join()
    assert killed.is_set()
    assert filled.written == 400_000
    assert read_integers(own_cluster.bootstrap_servers, "t") == list(range(400_000))


def test_a_rate_is_kept(connection: Connection, make_topic: MakeTopic) -> None:
    filled = fill(connection, make_topic(partitions=3).name, 600, rate=1000)
    assert filled.records_per_second <= 1000 * 1.01


def test_a_topic_with_other_data_is_refused_and_nothing_is_written(
    connection: Connection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1).name
    producer = Producer(connection.config())
    producer.produce(topic, key=b"order-7", value=b"order-7")
    producer.flush()
    with pytest.raises(EosError, match="does not end with an integer: b'order-7' at offset 0"):
        fill(connection, topic, 10)
    assert read_values(connection.bootstrap_servers, topic) == {0: [b"order-7"]}


@pytest.mark.parametrize(
    ("key", "value", "content"),
    [
        (b"8", b"7", "b'7' with the key b'8'"),
        (None, b"7", "b'7' with the key None"),
        (b"9" * 19, b"9" * 19, "b'9999999999999999999'"),
        (b"007", b"007", "b'007'"),
        (b"7", None, "None"),
    ],
)
def test_a_record_that_no_fill_wrote_is_refused(key: bytes | None, value: bytes | None, content: str) -> None:
    record = cast(Message, SimpleNamespace(key=lambda: key, value=lambda: value, offset=lambda: 3))
    with pytest.raises(EosError, match=re.escape(f"does not end with an integer: {content} at offset 3")):
        parse_integer(record, "t", 0)


def test_integers_beyond_64_bits_are_refused(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1).name
    producer = Producer(connection.config())
    producer.produce(topic, key=b"9223372036854775806", value=b"9223372036854775806")
    producer.flush()
    with pytest.raises(EosError, match="do not fit into 64 bits"):
        fill(connection, topic, 10)


def test_a_topic_that_has_grown_is_refused(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2).name
    fill(connection, topic, 100)
    connection.admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    wait_for(lambda: len(connection.partitions(topic)) == 3)
    with pytest.raises(EosError, match="had fewer partitions than 3"):
        fill(connection, topic, 10)


def test_growth_is_noticed_even_if_the_last_integers_hash_as_before() -> None:
    now = {n: int(p) for n, p in enumerate(partitions_of(pa.array([b"%d" % n for n in range(60)], pa.binary()), 3))}
    right = [[n for n in now if now[n] == p] for p in range(3)]
    refuse_grown("t", right)
    misplaced = right[1][0]
    with pytest.raises(
        EosError, match=f"had fewer partitions than 3 when it was filled: {misplaced} is in partition 0"
    ):
        refuse_grown("t", [[misplaced, *right[0]], right[1], []])


def test_a_fill_continues_after_aborted_records_and_markers(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1).name
    fill(connection, topic, 10)
    producer = Producer(connection.config(transactional_id=topic))
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(100):
        producer.produce(topic, key=b"999", value=b"999")
    producer.flush()
    producer.abort_transaction(30)
    assert fill(connection, topic, 5).first == 10
    assert read_integers(connection.bootstrap_servers, topic) == list(range(15))


def test_records_that_are_not_acknowledged_are_an_error(
    monkeypatch: pytest.MonkeyPatch, own_cluster: KafkaCluster
) -> None:
    """Records that time out leave the queue, which must not count as success."""
    connection = Connection(own_cluster.bootstrap_servers)
    create_topics([Topic("t", partitions=1)], connection)
    fill(connection, "t", 10)
    monkeypatch.setattr("eos_assets.experiment.fill.DELIVERY_SECONDS", 3)
    process = own_cluster.nodes[0].process
    assert process is not None
    seen: list[int] = []

    def pause_after_some(acknowledged: int) -> None:
        seen.append(acknowledged)
        if acknowledged > 20_000:
            process.pause()

    with pytest.raises(EosError, match="not acknowledged: the brokers did not answer within 3 s"):
        fill(connection, "t", 1_000_000, progress=pause_after_some)
    process.resume()
    wait_for(lambda: settled(connection))  # what the broker had received before it was paused may still arrive
    filled = fill(connection, "t", 10)
    assert read_integers(own_cluster.bootstrap_servers, "t") == list(range(filled.next))


def settled(connection: Connection) -> bool:
    """Whether no record arrived during a second."""
    before, start = stable_ends(connection, "t", [0]), time.monotonic()
    wait_for(lambda: time.monotonic() - start > 1)
    return before == stable_ends(connection, "t", [0])
