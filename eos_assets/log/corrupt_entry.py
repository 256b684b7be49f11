"""The error for a message in a ledger or provenance topic that the pipeline did not write."""

from eos_assets.errors import Code, EosError


class CorruptEntry(EosError):
    """A foreign message: another program wrote it, or a version of this project with another format."""

    code = Code.CORRUPT_ENTRY

    def __init__(self, topic: str, partition: int, offset: int, expected: str, cause: Exception) -> None:
        text = (str(cause).splitlines() or [""])[0][:200]
        super().__init__(
            f"{topic}/{partition} offset {offset} does not hold a {expected}: {type(cause).__name__}: {text}".rstrip(
                ": "
            ),
            "Restore the topic, or declare the next generation with a new sink. Another program, or another version of "
            "this project, wrote this message; no run continues from it or changes it.",
        )
