"""What a run needs to know of its Spark session, and what it refuses there, before anything runs."""

import re
from typing import TYPE_CHECKING

from eos_assets.errors import EosError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The minor versions on which the whole test suite passes. Plans, errors and workers differ between them.
TESTED = ("4.2",)
#: Spark's own default, on a cluster.
MAX_FAILURES = "4"


def check_spark(spark: "SparkSession", accepted: str | None = None) -> None:
    """Refuses a Spark that was not tested, unless it is accepted by its version, and one that runs tasks twice."""
    version = minor(spark.version)
    if version not in TESTED and version != minor(accepted or ""):
        raise EosError(
            f"This is Spark {spark.version}, and eos_assets is tested with {', '.join(TESTED)}: another version plans "
            "queries and runs Python workers in its own way, and records could be lost.",
            f"Use Spark {TESTED[-1]}, or accept this one with EOS_ACCEPT_SPARK={version} after the tests passed on it "
            "(docs/compatibility.md). Nothing was written.",
        )
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise EosError(
            "Speculation is switched on in this Spark: two copies of a task would fence each other.",
            "Set spark.speculation to false.",
        )


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def task_attempts(spark: "SparkSession") -> int:
    """How often Spark tries a task before it fails the job."""
    master = spark.conf.get("spark.master", "") or ""
    local = re.fullmatch(r"local(?:\[[^,\]]+(?:,\s*(\d+))?\])?", master)
    if local:
        return int(local.group(1) or 1)
    return int(spark.conf.get("spark.task.maxFailures", MAX_FAILURES) or MAX_FAILURES)
