"""Progress bars and messages on standard error, so that standard output stays clean for scripts."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.highlighter import NullHighlighter
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eos_assets.platform.jars import fetch, find_damaged, read_lock
from eos_assets.platform.settings import Settings


@contextmanager
def bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; the yielded function sets its value."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.update(task, completed=done)


def fetch_jars(settings: Settings) -> None:
    """Fetch the jars with a progress bar, unless all of them are present."""
    if find_damaged(settings.jars_dir):
        with bar("Fetching jars, once", len(read_lock())) as done:
            fetch(settings, done)


@contextmanager
def log_messages(console: Console) -> Iterator[None]:
    """Print the warnings that the library logs meanwhile above the progress bars of this console. Errors are left out,
    because the command shows them with its result."""
    handler = RichHandler(
        logging.WARNING, console, show_time=False, show_level=False, show_path=False, highlighter=NullHighlighter()
    )
    handler.addFilter(lambda record: record.levelno < logging.ERROR)
    library = logging.getLogger("eos_assets")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)
