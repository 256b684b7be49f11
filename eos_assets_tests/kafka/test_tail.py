"""Reading a short range: it takes as long as it takes, while it goes on."""

import itertools
from types import SimpleNamespace

import pytest

from eos_assets.kafka import tail
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.fill import fill
from eos_assets_tests.conftest import MakeTopic


def test_reading_ends_by_a_standstill_and_not_by_the_clock(
    connection: Connection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock on which each look takes a second, so that the whole way takes longer than the patience."""
    topic = make_topic(partitions=1).name
    fill(connection, topic, 200)
    monkeypatch.setattr(tail, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    consumer = tail.reader(connection)
    try:
        assert len(tail.records(consumer, topic, 0, 0, 200)) == 200
        with pytest.raises(tail.Unread, match="could not be read to offset 201: it stands still at 200"):
            tail.records(consumer, topic, 0, 150, 201)
    finally:
        consumer.close()
