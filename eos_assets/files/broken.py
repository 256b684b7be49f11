"""Why nothing of a file is delivered: the reason that its dead letter carries."""


class BrokenFile(Exception):
    """A file that cannot be delivered. Nothing of it is visible; the reason goes into the dead letter.

    `digest` is that of the file, where it could be read to its end although its content is wrong.
    """

    def __init__(self, reason: str, digest: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.digest = digest


class Refused(BrokenFile):
    """A reference that is not followed, or not followed any further: not declared, or beyond a limit."""


class Unreachable(BrokenFile):
    """A store that did not answer, or stopped in the middle: another try may get the file."""


class BadRow(BrokenFile):
    """One row that is wrong. Rows count from 1 and leave out the header; lines are those of the unpacked text."""

    def __init__(self, row: int, reason: str, line: int | None = None) -> None:
        at = f"row {row}" if line is None else f"row {row} (line {line})"
        super().__init__(f"{at}: {reason}")
        self.row = row


def shown(text: object, length: int = 40) -> str:
    """A value in a reason: quoted, and not longer than a reason should be."""
    try:
        whole = str(text)
    except RecursionError:
        whole = f"{type(text).__name__}, nested deep"
    return repr(whole if len(whole) <= length else f"{whole[:length]}…")


def not_understood(failure: Exception) -> str:
    """The reason for what no library below could make sense of."""
    return f"it cannot be understood: {type(failure).__name__}: {failure}"[:500]


def check_disk(failure: Exception) -> None:
    """Raises again what the system below says, with its number: that is no fault of the file. Arrow gives no number."""
    if isinstance(failure, OSError) and failure.errno is not None:
        raise failure
