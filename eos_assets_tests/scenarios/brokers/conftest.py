"""Brokers that the tests of this folder kill, stop and pause."""

from collections.abc import Iterator

import pytest

from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings

#: The broker looks for transactions that have timed out every 10 s by default.
QUICK = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="package")
def one_broker(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("one"), settings=settings, overrides=QUICK) as started:
        yield started


@pytest.fixture(scope="package")
def three_brokers(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("three"), brokers=3, settings=settings, overrides=QUICK) as started:
        yield started
