"""How many rows travel from Spark to a Python worker at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Watching the size of a batch takes Spark a third of the time of the way to the worker. This value switches it off:
#: where no record is large, the number of rows bounds a batch as well.
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NOT_WATCHED = str(2**31 - 1)
#: What our sessions begin with: 16 MB.
WATCHED = str(16 << 20)
#: Outputs of this size, on average, in the last transaction: the next ones may be too large for swift batches.
LARGE_BYTES = 4096


@dataclass
class Jobs:
    """The jobs under way in one session, whose setting they share."""

    #: What the session said before the first of them.
    said: str
    swift: int = 0
    careful: int = 0


_jobs: "dict[SparkSession, Jobs]" = {}
_lock = threading.Lock()


@contextmanager
def batches(spark: "SparkSession", *, swift: bool) -> Iterator[None]:
    """Sets how rows travel, for one job; what the session said before is restored behind the last one. While a careful
    job is under way a swift one is careful too: it takes longer, and the other way round memory might not suffice."""
    with _lock:
        jobs = _jobs.setdefault(spark, Jobs(spark.conf.get(BATCH_BYTES) or WATCHED))
        jobs.swift += swift
        jobs.careful += not swift
        spark.conf.set(BATCH_BYTES, jobs.said if jobs.careful else NOT_WATCHED)
    try:
        yield
    finally:
        with _lock:
            jobs.swift -= swift
            jobs.careful -= not swift
            spark.conf.set(BATCH_BYTES, jobs.said)
            if not jobs.swift and not jobs.careful:
                del _jobs[spark]
