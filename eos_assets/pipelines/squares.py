"""Squares: each integer of `datasource` gives its square in `datasink`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import eos_assets as eos


@eos.pipeline(source="datasource", sink="datasink")
def squares(records: DataFrame) -> DataFrame:
    """Keep the key and square the value. A value that is not an integer becomes a dead letter."""
    text = f.col("value").cast("string")
    number = f.when(text.rlike(r"^-?[0-9]+\z"), text.try_cast("decimal(19,0)"))
    error = f.when(number.isNull(), "the value is not an integer of at most 19 digits")
    return eos.output(records, value=number * number, error=error)
