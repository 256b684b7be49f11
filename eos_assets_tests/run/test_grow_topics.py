"""The pipeline's own topics grow with the source, after the preflight."""

import pytest
from confluent_kafka.admin import NewPartitions

from eos_assets.declare.options import Batching
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.run.grow_topics import grow
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.waiting import wait_for


def test_two_runs_may_let_the_ledger_grow(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2).name
    for _ in range(2):
        grow(connection, topic, 4)
    assert len(connection.partitions(topic)) == 4


def test_a_preflight_that_refuses_lets_nothing_grow(make_lab: MakeLab) -> None:
    lab = make_lab(partitions=1)
    names = lab.pipeline.names()
    own = (names.ledger, names.provenance, names.dead_letters)
    lab.connection.admin.create_partitions([NewPartitions(lab.source, 2)])[lab.source].result()
    wait_for(lambda: len(lab.connection.partitions(lab.source)) == 2)
    with pytest.raises(EosError, match="the broker allows"):
        lab.with_(batching=Batching(timeout_ms=3_600_000)).run()
    assert [len(lab.connection.partitions(topic)) for topic in own] == [1, 1, 1]
    lab.produce([b"1"], partition=1)
    assert lab.run().complete
    assert [len(lab.connection.partitions(topic)) for topic in own] == [2, 2, 2]
    lab.assert_squares([1])
    assert lab.broken() == set()
