"""Checks that a pipeline declares in addition to the invariants of every pipeline."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eos_assets.declare.pipeline import Pipeline
    from eos_assets.kafka.connection import Connection


@dataclass(frozen=True)
class Finding:
    """The result of one check: whether it holds, a description, and counter-examples if it does not."""

    #: The name of the check. The finding of a declared check gets it from the check.
    name: str = ""
    holds: bool = True
    detail: str = ""
    examples: tuple[str, ...] = ()
    severity: str = "error"
    #: False if the check could not be evaluated: then it neither passed nor failed.
    evaluated: bool = True


@dataclass(frozen=True)
class Check:
    """A check of one pipeline. It becomes an asset check of the sink."""

    name: str
    description: str
    evaluate: Callable[["Pipeline", "SparkSession", "Connection"], Finding]
    #: Whether assets downstream of the sink wait until it passes.
    blocking: bool = True

    def finding(self, pipeline: "Pipeline", spark: "SparkSession", kafka: "Connection") -> Finding:
        """Evaluate the check, and name its finding after it."""
        return replace(self.evaluate(pipeline, spark, kafka), name=self.name)
