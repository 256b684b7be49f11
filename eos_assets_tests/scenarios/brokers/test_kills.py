"""The headline (F3): the writers are killed again and again, every broker is killed and stopped, and each record is
there once, in order."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eos_assets.kafka.offsets import bounds
from eos_assets.local.broker import KafkaCluster
from eos_assets_tests.kafka.replicas import await_in_sync
from eos_assets_tests.run.background import Background
from eos_assets_tests.run.lab import KINDS, Lab
from eos_assets_tests.sink.killing import (
    SINK_PARTITIONS,
    SOURCE_PARTITIONS,
    Killer,
    Named,
    assert_each_square_once_in_order,
    declare_many_to_many,
)
from eos_assets_tests.sink.watcher import Watcher
from eos_assets_tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)

COUNT = 200_000


@pytest.mark.parametrize("kind", KINDS)
def test_nine_kills_of_writers_and_every_broker_killed_and_stopped(
    spark: SparkSession, three_brokers: KafkaCluster, tmp_path: Path, kind: str
) -> None:
    cluster = three_brokers
    lab = Lab(spark, cluster.connection, declare_many_to_many(kind, records=1000))
    lab.create()
    lab.fill(COUNT)
    lab.watcher = Watcher(cluster.bootstrap_servers, lab.sink, SINK_PARTITIONS)
    sizes = {p: each.high for p, each in bounds(lab.connection, lab.source).items()}
    run = Background(lab, Named(str(tmp_path), sizes), max_attempts=100)  # type: ignore[arg-type]
    killer = Killer(lab, tmp_path, sizes)
    bounces = [(node, end) for node in cluster.nodes for end in (cluster.kill, cluster.shut_down)]
    try:
        for number, (node, end) in enumerate(bounces, 1):
            wait_for(partial(killer.has_killed, number), 120)
            await_in_sync(lab.connection)  # with the broker before: a record needs two of the three
            end(node.id)
            assert not node.is_running()
            cluster.restart(node.id)
        (tmp_path / "bounced").touch()
        run.thread.join(400)
    finally:
        killer.done.set()
        killer.thread.join(30)
    report = run.result()
    assert report.complete, report.failures[-1:]
    assert len(killer.kills) >= 9, killer.kills
    assert set(killer.kills) == set(range(SOURCE_PARTITIONS))
    assert_each_square_once_in_order(lab)
    assert sum(each.size for each in report.planned.values()) == COUNT
    lab.watcher.stop()
    assert lab.lag() == 0
    assert lab.broken() == set()
