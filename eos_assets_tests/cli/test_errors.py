"""Errors that a user can fix are printed without a stack trace."""

import click
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException

from eos_assets.cli import Commands


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
