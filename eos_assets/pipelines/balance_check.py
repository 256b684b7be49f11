"""The check of `balances` that every balance is the sum of its transactions, recomputed from the topics."""

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from eos_assets.context import PipelineContext
from eos_assets.declare.check import Check, Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.transform.source import read_ranges
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.topic_frames import TopicFrames
from eos_assets.verify.window_reader import read_window

NAME = "balances_are_sums"


def balances_are_sums(pipeline: Pipeline, spark: SparkSession, connection: Connection) -> Finding:
    """A transaction is accepted if it has an output. Its account and amount are read from the source, its balance from
    the output, and the provenance map ties the two: nothing that the function computed is trusted."""
    context = PipelineContext(pipeline, spark, connection)
    window = read_window(context, full=True)
    if window.unprovable:
        return Finding(NAME, True, "not evaluated: retention has removed transactions", evaluated=False)
    frames = TopicFrames(context, window)
    sink = frames.sinks[0]
    ranges = window.ranges(sink)
    if not window.retained or not any(r.size for r in ranges):
        return Finding(NAME, True, "no balance yet")
    ends = {partition: scope.end for partition, scope in window.partitions.items()}
    accepted = accepted_transactions(frames.maps(), ends)
    transactions = read_transactions(frames.source())
    balances = read_balances(read_ranges(spark, connection, sink, ranges))
    bookings = accepted.join(transactions, ["source_partition", "source_offset"], "left").join(
        balances, ["sink_partition", "sink_offset"], "left"
    )
    return compare_balances(add_totals(bookings))


def accepted_transactions(maps: DataFrame, ends: dict[int, int]) -> DataFrame:
    """The map entries of outputs, without those of transactions after the window."""
    end = f.create_map(*(f.lit(number) for item in ends.items() for number in item))
    in_window = f.col("start") < end[f.col("source_partition")]
    return maps.where(in_window & (f.col("topic") == 0) & (f.col("sink_offset") >= 0))


def read_transactions(records: DataFrame) -> DataFrame:
    transaction = f.try_parse_json(f.col("value").cast("string"))
    return records.select(
        f.col("partition").alias("source_partition"),
        f.col("offset").alias("source_offset"),
        f.col("key").cast("string").alias("account"),
        f.try_variant_get(transaction, "$.amount", "decimal(38,2)").alias("amount"),
    )


def read_balances(records: DataFrame) -> DataFrame:
    output = f.col("value").cast("string")
    return records.select(
        f.col("partition").alias("sink_partition"),
        f.col("offset").alias("sink_offset"),
        f.col("key").cast("string").alias("output_key"),
        f.get_json_object(output, "$.account").alias("output_account"),
        f.get_json_object(output, "$.balance").try_cast("decimal(38,2)").alias("balance"),
    )


def add_totals(bookings: DataFrame) -> DataFrame:
    """Add the sum of the amounts of the account, up to and including each transaction."""
    so_far = Window.partitionBy("account").orderBy("source_offset")
    return bookings.withColumn("total", f.sum("amount").over(so_far).cast("decimal(38,2)"))


def is_correct() -> Column:
    account = f.col("account")
    return (
        f.col("total").eqNullSafe(f.col("balance"))
        & f.col("amount").isNotNull()
        & account.eqNullSafe(f.col("output_key"))
        & account.eqNullSafe(f.col("output_account"))
    )


def compare_balances(bookings: DataFrame) -> Finding:
    counts = bookings.agg(
        f.count_distinct("account").alias("accounts"),
        f.count("*").alias("transactions"),
        f.count_if(~is_correct()).alias("wrong"),
    ).first()
    assert counts is not None
    if not counts.wrong:
        detail = f"{counts.accounts:,} accounts, each the sum of its transactions; {counts.transactions:,} in all"
        return Finding(NAME, True, detail)
    examples = tuple(
        f"account {row.account}: after offset {row.source_offset} the balance is {row.balance}"
        f"{'' if row.output_key == row.account else f' of account {row.output_key}'}, the sum {row.total}"
        for row in bookings.where(~is_correct()).orderBy("account", "source_offset").limit(SHOWN).collect()
    )
    return Finding(NAME, False, f"{counts.wrong} balances are not the sum of the account's transactions", examples)


BALANCES_ARE_SUMS = Check(
    NAME,
    "Every balance is the sum of the account's accepted transactions, recomputed from the topics.",
    balances_are_sums,
)
