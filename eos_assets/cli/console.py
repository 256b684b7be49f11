"""Where a command's tables go: as wide as the terminal, and unwrapped into a file or a pipe."""

import sys

from rich.console import Console

PIPE_WIDTH = 200


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
