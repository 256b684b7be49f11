"""What the library logs while a test runs."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CallingHandler(logging.Handler):
    """Passes on each message."""

    def __init__(self, act: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.act = act

    def emit(self, record: logging.LogRecord) -> None:
        self.act(record.getMessage())


@contextmanager
def on_message(act: Callable[[str], None]) -> Iterator[None]:
    """Call a function with each message that is logged meanwhile, at the moment at which it is logged."""
    handler, library = CallingHandler(act), logging.getLogger("eos_assets")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)


@contextmanager
def collect_messages() -> Iterator[list[str]]:
    """The messages that are logged meanwhile."""
    messages: list[str] = []
    with on_message(messages.append):
        yield messages
