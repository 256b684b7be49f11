"""The errors that keep a file from being delivered, with the reason that its dead letter carries."""


class FileError(Exception):
    """A file that cannot be delivered. Nothing of it becomes visible; the reason goes into its dead letter.

    `digest` is set if the file was read to its end although its content is invalid.
    """

    def __init__(self, reason: str, digest: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.digest = digest


class AccessDenied(FileError):
    """A reference to a place from which no file may be fetched."""


class LimitExceeded(FileError):
    """A file that is larger, or takes longer, than its limits allow."""


class StoreUnavailable(FileError):
    """A store that did not answer, or stopped before the end of the file. Another attempt may succeed."""


class RowError(FileError):
    """An invalid row. Rows count from 1, without the header; lines are those of the unpacked text."""

    def __init__(self, row: int, reason: str, line: int | None = None) -> None:
        position = f"row {row}" if line is None else f"row {row} (line {line})"
        super().__init__(f"{position}: {reason}")
        self.row = row


def quote(value: object, length: int = 40) -> str:
    """A value as a reason shows it: in quotes, and shortened."""
    try:
        text = str(value)
    except RecursionError:
        text = f"{type(value).__name__}, deeply nested"
    return repr(text if len(text) <= length else f"{text[:length]}…")


def describe_unexpected(failure: Exception) -> str:
    """The reason for an error of a library that is not known here."""
    return f"unexpected error: {type(failure).__name__}: {failure}"[:500]


def reraise_system_error(failure: Exception) -> None:
    """Raise an error of the operating system again, because no file causes it. Arrow's own errors have no number."""
    if isinstance(failure, OSError) and failure.errno is not None:
        raise failure
