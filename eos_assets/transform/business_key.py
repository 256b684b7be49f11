"""The business key of source records, as bytes, whatever the type of its expression."""

from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.transform.source import SCHEMA
from eos_assets.transform.spark_errors import summarize

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def business_key(pipeline: Pipeline) -> "Column":
    """The key as a column. It is cast to text first, because numbers and dates do not cast to bytes; bytes that are not
    UTF-8 stay as they are."""
    from pyspark.sql import functions as f

    return f.expr(pipeline.unique.by if pipeline.unique else "key").cast("string").cast("binary").alias("business_key")


def check_business_key(pipeline: Pipeline, spark: "SparkSession") -> None:
    """Refuse an expression that Spark cannot parse, before anything runs."""
    if pipeline.unique is None or pipeline.unique.by in ("key", "value"):
        return
    try:
        assert spark.createDataFrame([], SCHEMA).select(business_key(pipeline)).columns
    except Exception as failure:
        raise EosError(
            f"Pipeline {pipeline.name}: Unique(by={pipeline.unique.by!r}) is not valid: {summarize(failure)}",
            "Use a SQL expression over `key`, `value` and `headers`.",
        ) from failure


def repeated_keys(source: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    """The business keys that several records of the source have, as text; repeats that were skipped do not count."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    keys = source.select(business_key(pipeline), "partition", "offset").where("business_key is not null")
    if pipeline.unique and pipeline.unique.within is not None:
        before = Window.partitionBy("partition", "business_key").orderBy("offset")
        gap = f.col("offset") - f.lag("offset").over(before)
        skipped = f.coalesce(gap <= f.lit(pipeline.unique.within), f.lit(False))
        keys = keys.select("business_key", skipped.alias("skipped")).where("not skipped")
    counted = keys.groupBy(f.xxhash64("business_key").alias("h")).agg(
        f.count("*").alias("records"), f.first("business_key").alias("business_key")
    )
    text = f.concat(f.lit("records="), "records", f.lit(", business_key="), key_text("business_key"))
    return counted.where("records > 1").select(text.alias("text"))


def key_text(key: str) -> "Column":
    """A business key as text; in hexadecimal digits where it is not UTF-8."""
    from pyspark.sql import functions as f

    text = f.col(key).cast("string")
    return f.when(f.is_valid_utf8(text), text).otherwise(f.concat(f.lit("0x"), f.hex(key)))
