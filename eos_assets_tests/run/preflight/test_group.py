"""A foreign member of the consumer group."""

import pytest
from confluent_kafka import Consumer

from eos_assets.errors import EosError
from eos_assets_tests.run.lab import Lab
from eos_assets_tests.waiting import wait_for


def test_a_consumer_in_the_group_is_refused_and_named(lab: Lab) -> None:
    """F20."""
    lab.fill(30)
    intruder = Consumer(lab.connection.config(group_id=lab.pipeline.names().group, client_id="intruder"))
    intruder.subscribe([lab.source])
    wait_for(lambda: intruder.poll(0.1) is not None or intruder.assignment())
    try:
        with pytest.raises(EosError, match=r"1 active member\(s\): intruder"):
            lab.run()
    finally:
        intruder.close()
    assert lab.read() == []
