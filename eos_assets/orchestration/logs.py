"""Shows the messages of the library in the log of a Dagster run."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ForwardingHandler(logging.Handler):
    """Passes on the records of one thread: each run of a process has its own log."""

    def __init__(self, target: logging.Logger) -> None:
        super().__init__()
        self.target = target
        self.thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread:
            self.target.log(record.levelno, record.getMessage())


@contextmanager
def forward_messages(target: logging.Logger) -> Iterator[None]:
    """Pass on what the library logs meanwhile to this logger, for example `context.log`."""
    handler, library = ForwardingHandler(target), logging.getLogger("eos_assets")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)
