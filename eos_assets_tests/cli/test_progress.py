"""Messages of the library on standard error."""

import io
import logging

from rich.console import Console

from eos_assets.cli.log_output import log_messages


def test_warnings_are_printed_as_they_are_and_errors_left_to_the_command() -> None:
    output, library = io.StringIO(), logging.getLogger("eos_assets.run.run")
    with log_messages(Console(file=output, width=100)):
        library.warning("attempt %d: %s", 1, "[bold]killed[/]")
        library.info("not shown")
        library.error("shown with the result of the command")
    assert output.getvalue().strip() == "attempt 1: [bold]killed[/]"
