"""The options of all commands: what a help text shows is what the command takes."""

from collections.abc import Iterator

import click

from eos_assets.cli import main


def options(command: click.Command, name: str) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None, f"{name} {child} is listed"
            yield from options(found, f"{name} {child}")
    yield from ((f"{name} {parameter.name}", parameter) for parameter in command.params)


def test_choices_are_given_as_they_are_shown() -> None:
    """Click takes the members of an enumeration by other names than their values."""
    choices = {name: p.type for name, p in options(main, "eos") if isinstance(p.type, click.Choice)}
    assert "eos topics list mode" in choices
    for name, choice in choices.items():
        assert all(type(value) is str for value in choice.choices), name


def test_every_option_explains_itself() -> None:
    silent = [name for name, p in options(main, "eos") if isinstance(p, click.Option) and not p.help]
    assert silent == []
