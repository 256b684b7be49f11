"""Is this a version of Spark that was tested, and does it run each task only once at a time?"""

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
    """Refuse a Spark that was not tested, unless its version is accepted, and one that runs copies of tasks."""
    version = minor(spark.version)
    if version not in TESTED and version != minor(accepted or ""):
        raise EosError(
            f"This is Spark {spark.version}, and eos_assets is tested with {', '.join(TESTED)}: another version plans "
            "queries and runs Python workers differently, and records could be lost. Nothing was written.",
            f"Use Spark {TESTED[-1]}, or accept this one with EOS_ACCEPT_SPARK={version} after the tests passed on it "
            "(docs/compatibility.md).",
        )
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise EosError(
            "Speculation is switched on in this Spark session: two copies of a task would fence each other.",
            "Set spark.speculation to false.",
        )


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def task_attempts(spark: "SparkSession") -> int:
    """The number of attempts at a task after which Spark fails the job."""
    master = spark.conf.get("spark.master", "") or ""
    local = re.fullmatch(r"local(?:\[[^,\]]+(?:,\s*(\d+))?\])?", master)
    if local:
        return int(local.group(1) or 1)
    return int(spark.conf.get("spark.task.maxFailures", MAX_FAILURES) or MAX_FAILURES)
