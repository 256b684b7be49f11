"""File transactions: each file that a record names gives one record per row, all of them or none."""

from pyspark.sql import DataFrame

import eos_assets as eos
from eos_assets.files.task import RESULT_COLUMNS, file_reader
from eos_assets.pipelines.file_check import FILES_MATCH_LEDGER
from eos_assets.platform.settings import Settings


@eos.pipeline(
    source="files-with-transactions",
    sink="transactions",
    deterministic=False,  # the content of a URL may change
    ordered=True,  # each file is delivered before the next one is fetched
    # All rows of a file are in one transaction, however many there are.
    batching=eos.Batching(records=5_000, timeout_ms=300_000),
    checks=(FILES_MATCH_LEDGER,),
)
def file_transactions(records: DataFrame) -> DataFrame:
    """Return one record per row, keyed by account, in the order of the file. An invalid file becomes a dead letter."""
    access = Settings.load().files  # read on the driver, and sent to the workers
    return records.select("value", "origin").mapInArrow(file_reader(access), RESULT_COLUMNS)
