"""Pipelines of the tests, found through an entry point: one downstream of another, and one that fails at first."""

import os
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic

#: The file that `moody` waits for.
SERVICE = "MOODY_SERVICE"


@pipeline(source=Topic("datasink", partitions=3), sink=Topic("doubled", partitions=3))
def doubles(records: DataFrame) -> DataFrame:
    """The key stays, the value is doubled."""
    number = f.col("value").cast("string").cast("decimal(38,0)")
    return records.select("key", (number * 2).cast("string").alias("value"), "origin")


@pipeline(source=Topic("moody-in", partitions=1), sink=Topic("moody-out", partitions=1))
def moody(records: DataFrame) -> DataFrame:
    """Every record unchanged, once the service that it needs is available."""
    if not Path(os.environ[SERVICE]).exists():
        raise RuntimeError("the service is not available")
    return records.select("key", "value", "origin")
