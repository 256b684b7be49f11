"""Progress bars on standard error, so that standard output stays clean for scripts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eos_assets.cli.log_output import stderr_console
from eos_assets.platform.jars import fetch, find_damaged, read_lock
from eos_assets.platform.settings import Settings


@contextmanager
def bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; the yielded function sets its value."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr_console()) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.update(task, completed=done)


def fetch_jars(settings: Settings) -> None:
    """Fetch the jars with a progress bar, unless all of them are present."""
    if find_damaged(settings.jars_dir):
        with bar("Fetching jars, once", len(read_lock())) as done:
            fetch(settings, done)
