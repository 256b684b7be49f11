"""What the library logs, on standard error: as text above progress bars, or as one JSON object a line for machines."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.highlighter import NullHighlighter
from rich.logging import RichHandler

LIBRARY = logging.getLogger("eos_assets")
#: What each record has by itself; everything else is a field that the library has added.
STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One line with time, level, logger and message, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name not in STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class ChosenHandler(logging.StreamHandler):  # type: ignore[type-arg]  # it has a type parameter only in its stub
    """The handler of --log-format json, and of --log-level without it."""


def configure(log_format: str, level: str | None) -> None:
    """Log as the options say. Without them a command logs as it did: it shows what concerns its result itself."""
    for handler in [handler for handler in LIBRARY.handlers if isinstance(handler, ChosenHandler)]:
        LIBRARY.removeHandler(handler)
    LIBRARY.setLevel(logging.NOTSET)
    if log_format == "text" and level is None:
        return
    chosen = ChosenHandler(sys.stderr)
    if log_format == "json":
        chosen.setFormatter(JsonFormatter())
    else:
        chosen.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LIBRARY.addHandler(chosen)
    LIBRARY.setLevel((level or "info").upper())


def logs_json() -> bool:
    """Whether standard error is for machines."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in LIBRARY.handlers)


def stderr_console() -> Console:
    """The console for progress on standard error: a silent one if that is for machines."""
    return Console(stderr=True, highlight=False, quiet=logs_json())


@contextmanager
def log_messages(console: Console) -> Iterator[None]:
    """Print the warnings that the library logs meanwhile, above the progress bars of this console, unless the options
    of the log say otherwise. The command itself shows what an error reports, with its result."""
    if any(isinstance(handler, ChosenHandler) for handler in LIBRARY.handlers):
        yield
        return
    handler = RichHandler(
        logging.WARNING, console, show_time=False, show_level=False, show_path=False, highlighter=NullHighlighter()
    )
    handler.addFilter(lambda record: record.levelno < logging.ERROR)
    LIBRARY.addHandler(handler)
    try:
        yield
    finally:
        LIBRARY.removeHandler(handler)
