"""How many rows travel from Spark to a Python worker at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eos_assets.exactly_once.ledger import LedgerEntry
from eos_assets.exactly_once.plan import PartitionPlan
from eos_assets.spark_config import SESSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Watching the size of a batch takes Spark a third of the time of the way to the worker. This value switches it off:
#: where no record is large, the number of rows bounds a batch as well.
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NOT_WATCHED = str(2**31 - 1)
#: What our sessions begin with.
WATCHED = SESSION[BATCH_BYTES]
#: Outputs of this size, on average, in the last transaction: the next ones may be too large for swift batches.
LARGE_BYTES = 4096


@contextmanager
def batches(spark: "SparkSession", *, swift: bool) -> Iterator[None]:
    """Sets how rows travel, for one job; what the session said before is restored."""
    before = spark.conf.get(BATCH_BYTES)
    watched = WATCHED if before in (None, NOT_WATCHED) else before  # another run of this session may be swift just now
    spark.conf.set(BATCH_BYTES, NOT_WATCHED if swift else watched)
    try:
        yield
    finally:
        spark.conf.set(BATCH_BYTES, watched)


def known_to_be_large(plans: list[PartitionPlan]) -> bool:
    tails = [plan.tail for plan in plans if isinstance(plan.tail, LedgerEntry)]
    return any(tail.bytes_out > LARGE_BYTES * max(1, tail.records_out) for tail in tails)
