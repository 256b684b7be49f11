"""Limits the Arrow batches that Spark sends to Python workers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Measuring the bytes of a batch takes a third of the time in which Spark sends it to the worker. With NO_LIMIT it does
#: not measure: where no record is large, the limit of rows is enough.
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)
#: The limit that our sessions begin with: 16 MB.
DEFAULT_LIMIT = str(16 << 20)
#: After outputs of this size, on average in the last transaction, the next ones may be too large for fast batches.
LARGE_BYTES = 4096


@dataclass
class RunningJobs:
    """The jobs that run in one session and share its setting."""

    #: The session's own limit.
    limit: str
    fast: int = 0
    careful: int = 0


_jobs: "dict[SparkSession, RunningJobs]" = {}
_lock = threading.Lock()


@contextmanager
def arrow_batch_limit(spark: "SparkSession", *, fast: bool) -> Iterator[None]:
    """Set the limit for one job, and restore the session's own one after the last job. While a careful job runs, a fast
    one has its limit, too: that is slower, but without it the careful job might run out of memory."""
    with _lock:
        jobs = _jobs.setdefault(spark, RunningJobs(spark.conf.get(BATCH_BYTES) or DEFAULT_LIMIT))
        jobs.fast += fast
        jobs.careful += not fast
        spark.conf.set(BATCH_BYTES, jobs.limit if jobs.careful else NO_LIMIT)
    try:
        yield
    finally:
        with _lock:
            jobs.fast -= fast
            jobs.careful -= not fast
            spark.conf.set(BATCH_BYTES, jobs.limit)
            if not jobs.fast and not jobs.careful:
                del _jobs[spark]
