"""What the tests of transforms share."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from eos_assets_tests.run.lab import Lab

Transform = Callable[[DataFrame], DataFrame]


def outputs(rows: DataFrame) -> DataFrame:
    return rows.select("key", "value", "origin")


def assert_nothing_written(lab: Lab) -> None:
    """Not even in an aborted transaction."""
    for topic in lab.pipeline.own_topics():
        assert lab.read(topic.name, "read_uncommitted") == [], topic.name
    assert lab.lag() == 90
