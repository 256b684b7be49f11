"""What somebody else wrote into a topic of a pipeline's own: its place in, the error that tells it out."""

from eos_assets.errors import EosError
from eos_assets.exactly_once.spark_errors import brief

REMEDY = (
    "Somebody else, or another version of this project, wrote there, and no run goes on from it. The topic is never "
    "changed silently: restore it, or begin anew: declare the next generation with a new sink."
)


class Foreign(EosError):
    """A message that the pipeline did not write, or not in a way that is known here."""


def foreign(topic: str, partition: int, offset: int, wanted: str, why: Exception) -> Foreign:
    told = (str(why).splitlines() or [""])[0][:200]
    return Foreign(
        f"{topic}/{partition} offset {offset} holds no {wanted}: {type(why).__name__}: {told}".rstrip(": "), REMEDY
    )


def foreign_in_spark(failure: Exception) -> Foreign | None:
    """The same, if that is what a Spark job failed of."""
    kind, _, problem = brief(failure).partition(": ")
    return Foreign(problem, REMEDY) if kind == f"{Foreign.__module__}.{Foreign.__qualname__}" else None
