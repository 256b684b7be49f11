"""Brokers forget transactional ids, producers and group offsets after idle days, here after seconds."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from kafka import TopicPartition as Place
from pyspark.sql import SparkSession

from eos_assets.experiment.faults import Faults
from eos_assets.kafka.transaction_client import ask_transactions
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets_tests.run.background import Background, await_stopped
from eos_assets_tests.run.lab import KINDS, Lab, declare
from eos_assets_tests.waiting import wait_for

#: The shortest retention of group offsets that a broker accepts is a minute.
EXPIRY_SECONDS = 120
QUICK = {
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "5000",
    "producer.id.expiration.check.interval.ms": "500",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings, overrides=QUICK) as started:
        yield started


def make_lab(spark: SparkSession, cluster: KafkaCluster, kind: str) -> Lab:
    lab = Lab(spark, cluster.connection, declare(kind=kind, partitions=1))
    lab.create()
    lab.fill(500)
    return lab


def transactional_ids(lab: Lab) -> set[str]:
    """The ids of this pipeline that a coordinator knows."""
    listings = ask_transactions(lab.connection, lambda client: client.list_transactions()).values()
    known = {listing.transactional_id for of_broker in listings for listing in of_broker}
    return {name for name in known if name == lab.pipeline.names().transactional_id(0)}


def producers(lab: Lab) -> list[object]:
    """The producers of the ledger that its leader knows."""
    place = Place(lab.pipeline.names().ledger, 0)
    return list(ask_transactions(lab.connection, lambda c: c.describe_producers([place]))[place].active_producers)


def has_group_offset(lab: Lab) -> bool:
    group = lab.pipeline.names().group
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(lab.source, 0)])
    ((_, future),) = lab.connection.admin.list_consumer_group_offsets([wanted]).items()
    return bool(future.result().topic_partitions[0].offset >= 0)


def has_expired(lab: Lab) -> bool:
    return not (transactional_ids(lab) or producers(lab) or has_group_offset(lab))


def test_each_record_takes_effect_once_after_everything_has_expired(
    spark: SparkSession, cluster: KafkaCluster, tmp_path: Path
) -> None:
    """F16, for both kinds of pipelines, and for a zombie: it has read the ledger before its successor's commit, and
    when it continues, no group offset contradicts that, and no coordinator remembers that it was fenced."""
    labs = [make_lab(spark, cluster, kind) for kind in KINDS]
    haunted = make_lab(spark, cluster, "frames")
    zombie = Background(haunted, Faults(failpoint="mid_read", action="stop", pid_folder=str(tmp_path)))
    pid = await_stopped(tmp_path)
    for lab in (*labs, haunted):
        assert lab.run().complete
        assert transactional_ids(lab)
        assert producers(lab)
        assert has_group_offset(lab)

    wait_for(lambda: all(map(has_expired, (*labs, haunted))), EXPIRY_SECONDS, pause=0.5)
    os.kill(pid, signal.SIGCONT)
    report = zombie.result()
    assert report.entries == []
    assert report.complete
    haunted.assert_squares(range(500))
    assert haunted.broken() == set()

    for lab in labs:
        assert not lab.run().planned, "nothing is written again"
        lab.fill(500)
        assert [entry.start for entry in lab.run().entries] == [500], "it goes on where the ledger ends"
        lab.assert_squares(range(1000))
        assert has_group_offset(lab)
        assert lab.broken() == set()
