"""One more thing that a pipeline can be checked for: its name, what it says, and who looks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eos_assets.kafka.connection import Connection
from eos_assets.proof.invariants import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eos_assets.exactly_once.pipeline import Pipeline


@dataclass(frozen=True)
class Fact:
    """A check that a pipeline brings along, beside the invariants that hold for all of them. It becomes an asset check
    of the sink; its finding says whether it is an error or a warning."""

    name: str
    says: str
    look: Callable[["Pipeline", "SparkSession", Connection], Finding]
