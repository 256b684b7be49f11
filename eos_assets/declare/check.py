"""One more thing that a pipeline can be checked for: its name, what it says, and who looks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eos_assets.declare.pipeline import Pipeline
    from eos_assets.kafka.connection import Connection


@dataclass(frozen=True)
class Finding:
    """What one invariant says: it holds, it is broken with counter-examples, or it could not be looked at and why."""

    name: str
    holds: bool
    detail: str
    examples: tuple[str, ...] = ()
    severity: str = "error"
    #: False where the check was not made: neither green nor red.
    evaluated: bool = True


@dataclass(frozen=True)
class Fact:
    """A check that a pipeline brings along, beside the invariants that hold for all of them. It becomes an asset check
    of the sink; its finding says whether it is an error or a warning."""

    name: str
    says: str
    look: Callable[["Pipeline", "SparkSession", "Connection"], Finding]
