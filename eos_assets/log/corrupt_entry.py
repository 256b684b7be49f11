"""What somebody else wrote into a topic of a pipeline's own: its place in, the error that tells it out."""

from eos_assets.errors import Code, EosError

REMEDY = (
    "Somebody else, or another version of this project, wrote there, and no run goes on from it. The topic is never "
    "changed silently: restore it, or begin anew: declare the next generation with a new sink."
)


class Foreign(EosError):
    """A message that the pipeline did not write, or not in a way that is known here."""

    code = Code.CORRUPT_ENTRY


def foreign(topic: str, partition: int, offset: int, wanted: str, why: Exception) -> Foreign:
    told = (str(why).splitlines() or [""])[0][:200]
    return Foreign(
        f"{topic}/{partition} offset {offset} holds no {wanted}: {type(why).__name__}: {told}".rstrip(": "), REMEDY
    )
