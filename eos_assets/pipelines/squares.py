"""Squares: each integer of `datasource` gives its square in `datasink`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic


@pipeline(source=Topic("datasource", partitions=3), sink=Topic("datasink", partitions=3))
def squares(records: DataFrame) -> DataFrame:
    """Keep the key and square the value. A value that is not an integer becomes a dead letter."""
    text = f.col("value").cast("string")
    number = f.when(text.rlike(r"^-?[0-9]+\z"), text.try_cast("decimal(19,0)"))
    error = f.when(number.isNull(), f.lit("the value is not an integer of at most 19 digits"))
    return records.select("key", (number * number).cast("string").alias("value"), error.alias("error"), "origin")
