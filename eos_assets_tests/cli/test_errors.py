"""Errors that a user can fix are printed without a stack trace."""

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException

from eos_assets.cli import Commands
from eos_assets.platform.project import project_root
from eos_assets_tests.cli.command import eos

MODULE = """
import eos_assets as eos

@eos.pipeline(source="{name}-in", sink="{name}-out")
def {name}(records):
    return records
"""


class Narrower(KafkaException):
    """A subclass, as confluent_kafka has for the serialization of values."""


class Failing(Commands):
    """Every command fails."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        def fail() -> None:
            raise Narrower(KafkaError(KafkaError.INVALID_CONFIG, "not so"))

        return click.Command(cmd_name, callback=fail)


def test_every_kafka_error_is_printed() -> None:
    run = CliRunner().invoke(Failing("eos"), ["run"])
    assert run.exit_code == 1
    assert "Kafka reported: not so (INVALID_CONFIG)" in run.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, outside this repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(project_root(Path(__file__).parent)), prepend=os.pathsep)
    monkeypatch.delenv("EOS_MODULES", raising=False)
    return tmp_path


@pytest.mark.parametrize("command", ["checks nosuch", "run nosuch", "topics list --pipeline nosuch"])
def test_only_the_pipelines_of_the_users_project_are_found(command: str, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.eos]\nmodules = ["orders"]\n')
    for name in ("orders", "refunds"):
        (folder / f"{name}.py").write_text(MODULE.format(name=name))
    assert "The pipelines are: orders. " in eos(*command.split(), status=1).stderr
    assert "The pipelines are: orders, refunds. " in eos(*command.split(), "--module", "refunds", status=1).stderr


@pytest.mark.parametrize(
    "command",
    ["plan squares", "run squares", "topics create", "checks", "trace datasink 0 0", "acls x --principal User:x"],
)
def test_without_a_pipeline_the_ways_to_name_one_are_printed(command: str, folder: Path) -> None:
    """The pipelines of the mission are found only when they are named."""
    error = " ".join(eos(*command.split(), status=1).stderr.split())
    assert "No pipeline was found." in error
    assert "--module my.module, in EOS_MODULES, or in pyproject.toml" in error
