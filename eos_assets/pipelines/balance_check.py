"""The money check of `balances`: every balance is the sum of its accepted transactions, recomputed from the topics."""

from typing import TYPE_CHECKING

from eos_assets.declare.check import Check, Finding
from eos_assets.declare.modes import Mode
from eos_assets.transform.source import read_ranges
from eos_assets.verify.frames import Tables
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.window import Looker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eos_assets.declare.pipeline import Pipeline
    from eos_assets.kafka.connection import Connection


def balances_are_sums(pipeline: "Pipeline", spark: "SparkSession", connection: "Connection") -> Finding:
    """Accepted is what has an output. Its account and amount are read from the source, the balance behind it from the
    output; both are tied by the provenance map, so nothing that the function says is believed."""
    from pyspark.sql import Window as SparkWindow
    from pyspark.sql import functions as f

    name = "balances_are_sums"
    window = Looker(pipeline, connection, Mode.EXACTLY_ONCE, full=True).look()
    if window.unprovable:
        return Finding(name, True, "not evaluated: retention has taken transactions", evaluated=False)
    tables = Tables(pipeline, spark, connection, Mode.EXACTLY_ONCE, window)
    sink = tables.sinks[0]
    ranges = window.ranges(sink)
    if not tables.retained or not any(r.size for r in ranges):
        return Finding(name, True, "no balance yet")
    ends = [f.lit(number) for p, w in window.partitions.items() for number in (p, w.end)]
    known = f.col("start") < f.create_map(*ends)[f.col("source_partition")]
    accepted = tables.maps().where(known & (f.col("topic") == 0) & (f.col("sink_offset") >= 0))
    source = read_ranges(spark, connection, pipeline.source.name, tables.retained).select(
        f.col("partition").alias("source_partition"),
        f.col("offset").alias("source_offset"),
        f.col("key").cast("string").alias("account"),
        f.try_variant_get(f.try_parse_json(f.col("value").cast("string")), "$.amount", "decimal(38,2)").alias("amount"),
    )
    outputs = read_ranges(spark, connection, sink, ranges).select(
        f.col("partition").alias("sink_partition"),
        f.col("offset").alias("sink_offset"),
        f.col("key").cast("string").alias("booked_to"),
        f.get_json_object(f.col("value").cast("string"), "$.account").alias("told_account"),
        f.get_json_object(f.col("value").cast("string"), "$.balance").try_cast("decimal(38,2)").alias("balance"),
    )
    booked = accepted.join(source, ["source_partition", "source_offset"], "left").join(
        outputs, ["sink_partition", "sink_offset"], "left"
    )
    before = SparkWindow.partitionBy("account").orderBy("source_offset")  # up to and with its own transaction
    balances = booked.withColumn("total", f.sum("amount").over(before).cast("decimal(38,2)"))
    right = (
        f.col("total").eqNullSafe(f.col("balance"))
        & f.col("amount").isNotNull()
        & f.col("account").eqNullSafe(f.col("booked_to"))
        & f.col("account").eqNullSafe(f.col("told_account"))
    )
    figures = balances.agg(
        f.count_distinct("account").alias("accounts"),
        f.count("*").alias("transactions"),
        f.count_if(~right).alias("wrong"),
    ).first()
    assert figures is not None
    if not figures.wrong:
        told = f"{figures.accounts:,} accounts, each the sum of its transactions; {figures.transactions:,} in all"
        return Finding(name, True, told)
    examples = tuple(
        f"account {row.account}: behind offset {row.source_offset} the balance is {row.balance}"
        f"{'' if row.booked_to == row.account else f' of account {row.booked_to}'}, the sum {row.total}"
        for row in balances.where(~right).orderBy("account", "source_offset").limit(SHOWN).collect()
    )
    return Finding(name, False, f"{figures.wrong} balances are not the sum of the account's transactions", examples)


BALANCES_ARE_SUMS = Check(
    "balances_are_sums",
    "Every balance is the sum of the account's accepted transactions, recomputed from the topics.",
    balances_are_sums,
)
