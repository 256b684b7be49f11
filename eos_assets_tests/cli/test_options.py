"""The options of all commands: a command accepts what its help text shows."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from eos_assets.cli import COMMANDS, main
from eos_assets.cli.options import add_modules
from eos_assets.errors import EosError
from eos_assets.platform.settings import Settings
from eos_assets_tests.cli.command import eos


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


def test_options_for_experiments_come_last_and_under_their_own_heading() -> None:
    shown = CliRunner().invoke(main, ["run", "--help"]).output
    usual, _, experiments = shown.partition("Options for experiments:")
    for option in ("--mode", "--failure-probability", "--failure-kind", "--seed"):
        assert option not in usual
        assert option in experiments
    assert "--module" in usual


def test_the_commands_are_grouped_in_the_order_of_use() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    headings = [f"\n{heading}:\n" for heading in ("Set up", "Run", "Prove", "Look", "Experiment")]
    positions = [shown.index(heading) for heading in headings]
    assert positions == sorted(positions)
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["rn"], "Did you mean 'run'?"),
        (["verfy", "squares"], "Did you mean 'verify'?"),
        (["topic", "create"], "Did you mean 'topics'?"),
        (["run", "squares", "--max-record", "1"], "--max-records"),
    ],
)
def test_the_nearest_command_or_option_is_suggested(words: list[str], hint: str) -> None:
    assert hint in eos(*words, status=2).stderr


def test_the_modules_of_an_option_come_before_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EOS_MODULES", "second")
    add_modules(click.Context(main), main.params[0], ("first", "other"))
    assert Settings.load().modules[:3] == ("first", "other", "second")
    with pytest.raises(EosError, match=r"--module: src/mine\.py is not the name of a module"):
        add_modules(click.Context(main), main.params[0], ("src/mine.py",))


def test_every_option_explains_itself() -> None:
    silent = [name for name, p in options(main, "eos") if isinstance(p, click.Option) and not p.help]
    assert silent == []
