"""The headline (F3): the writers are killed again and again, every broker is killed and stopped, and each record is there
once, in order."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eos_assets.kafka.offsets import bounds
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings
from eos_assets.run.plan import make_plan
from eos_assets.sink.job import NoFaults
from eos_assets_tests.kafka.replicas import await_in_sync
from eos_assets_tests.run.background import Background
from eos_assets_tests.run.lab import KINDS, Lab
from eos_assets_tests.sink.killing import (
    SINK_PARTITIONS,
    SOURCE_PARTITIONS,
    assert_each_square_once_in_order,
    declare_many_to_many,
)
from eos_assets_tests.sink.watcher import Watcher
from eos_assets_tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)

COUNT = 200_000
#: A writer is killed each time when its partition has advanced by this share.
SHARE = 0.2


@dataclass(frozen=True)
class Named(NoFaults):
    """No fault: each writer leaves its process id in a file that is named after its partition. The last fifth of a
    partition is written only when every broker has been down, so that no broker comes too late."""

    folder: str
    sizes: dict[int, int]

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        if failpoint == "after_init":
            Path(self.folder, str(partition)).write_text(str(os.getpid()))
        if failpoint == "after_commit" and start >= (1 - SHARE) * self.sizes[partition]:
            wait_for(Path(self.folder, "bounced").exists, 300)


@dataclass
class Killer:
    """Kills the writer of each partition whenever its position has advanced far enough."""

    lab: Lab
    folder: Path
    sizes: dict[int, int]
    kills: list[int] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.next = {p: int(size * SHARE) for p, size in self.sizes.items()}
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        while not self.done.wait(0.1):
            try:
                plans = make_plan(self.lab.pipeline, self.lab.connection)
            except Exception:  # a broker is down
                continue
            for plan in plans:
                if plan.lag and plan.position >= self.next[plan.partition]:
                    self.kill(plan.partition)
                    self.next[plan.partition] = plan.position + int(self.sizes[plan.partition] * SHARE)

    def has_killed(self, count: int) -> bool:
        return len(self.kills) >= count

    def kill(self, partition: int) -> None:
        pid = int((self.folder / str(partition)).read_text())
        try:
            os.kill(pid, signal.SIGKILL)
            self.kills.append(partition)
        except ProcessLookupError:
            return  # it has just ended by itself


@pytest.fixture(scope="module")
def cluster(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), brokers=3, settings=settings) as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_nine_kills_of_writers_and_every_broker_killed_and_stopped(
    spark: SparkSession, cluster: KafkaCluster, tmp_path: Path, kind: str
) -> None:
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
