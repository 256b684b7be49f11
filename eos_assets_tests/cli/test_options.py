"""The options of all commands: a command accepts what its help text shows."""

from collections.abc import Iterator

import click

from eos_assets.cli import main


def options(command: click.Command, name: str) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            assert subcommand is not None, f"{name} {child} is listed"
            yield from options(subcommand, f"{name} {child}")
    yield from ((f"{name} {parameter.name}", parameter) for parameter in command.params)


def test_choices_are_accepted_as_they_are_shown() -> None:
    """Click accepts the members of an enumeration by their names, not by their values."""
    choices = {name: p.type for name, p in options(main, "eos") if isinstance(p.type, click.Choice)}
    assert "eos topics list mode" in choices
    for name, choice in choices.items():
        assert all(type(value) is str for value in choice.choices), name


def test_every_option_explains_itself() -> None:
    silent = [name for name, p in options(main, "eos") if isinstance(p, click.Option) and not p.help]
    assert silent == []
