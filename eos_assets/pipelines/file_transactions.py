"""Files to records: each file named on `files-with-transactions` becomes its transactions, whole or not at all."""

from pyspark.sql import DataFrame

from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets.files.task import ROWS, unfolded
from eos_assets.pipelines.file_check import FILES_MATCH_LEDGER
from eos_assets.platform.settings import Settings


@pipeline(
    source=Topic("files-with-transactions", partitions=3),
    sink=Topic("transactions", partitions=3),
    deterministic=False,  # what a URL leads to may be something else tomorrow
    ordered=True,  # file after file: the first one is delivered before the last one is fetched
    # The rows of one file are one transaction, however many there are.
    batching=Batching(records=5_000, timeout_ms=300_000),
    checks=(FILES_MATCH_LEDGER,),
)
def file_transactions(records: DataFrame) -> DataFrame:
    """One record for each row, keyed by account, in the order of the file; what is broken becomes a dead letter."""
    access = Settings.load().files  # read here, on the driver; it travels to the workers
    return records.select("value", "origin").mapInArrow(unfolded(access), ROWS)
