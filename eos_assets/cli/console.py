"""The console for tables: as wide as the terminal, and wide enough not to wrap in a file or pipe."""

import sys

from rich.console import Console

PIPE_WIDTH = 200


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
