"""Pipelines on topics of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eos_assets.kafka.connection import Connection
from eos_assets_tests.exactly_once.lab import Lab, MakeLab, declare, squared
from eos_assets_tests.exactly_once.watcher import Watcher


@pytest.fixture
def make_lab(spark: SparkSession, connection: Connection) -> Iterator[MakeLab]:
    """Declares a pipeline and creates its topics; they are deleted afterwards."""
    labs: list[Lab] = []

    def make(transform: Callable[[DataFrame], DataFrame] = squared, **declared: Any) -> Lab:
        lab = Lab(spark, connection, declared.pop("pipeline", None) or declare(transform, **declared))
        lab.create()
        lab.watcher = Watcher(connection.bootstrap_servers, lab.sink, len(connection.partitions(lab.sink)))
        labs.append(lab)
        return lab

    yield make
    for lab in labs:
        if lab.watcher:
            lab.watcher.stop()
    names = sorted({name for lab in labs for name in lab.made})
    there = set(connection.metadata().topics)
    for future in connection.admin.delete_topics([name for name in names if name in there]).values() if names else ():
        future.result()


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """The squares, in three partitions."""
    return make_lab()
