"""Topics that grow with the source."""

from eos_assets.kafka.connection import Connection
from eos_assets.run.grow_topics import grow
from eos_assets_tests.plugin import MakeTopic


def test_two_runs_may_let_the_ledger_grow(connection: Connection, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2).name
    for _ in range(2):
        grow(connection, topic, 4)
    assert len(connection.partitions(topic)) == 4
