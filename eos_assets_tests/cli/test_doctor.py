"""`eos doctor` prints each problem as a line with its remedy, however many there are."""

import os
import socket
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from eos_assets.local.doctor import diagnose
from eos_assets_tests.cli.command import eos
from eos_assets_tests.cli.free_ports import free_ports


def lines(stdout: str) -> str:
    """The cells of the table as running text."""
    return " ".join(stdout.replace("│", " ").split())


def test_each_problem_is_a_line(home: Path, tmp_path: Path) -> None:
    ports = free_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(ports["EOS_SPARK_CONNECT_PORT"])))
        taken.listen()
        missing = {"PATH": str(tmp_path), "JAVA_HOME": "", "EOS_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
        output = lines(eos("doctor", status=1, **ports, **missing).stdout)
    assert "No Java in the PATH." in output
    assert "Install Java 17 or 21" in output
    assert f"Port {ports['EOS_SPARK_CONNECT_PORT']}, wanted for Spark Connect, is taken" in output
    assert f"process {os.getpid()}" in output
    assert "No Kafka broker answers at 127.0.0.1:1" in output


def test_brackets_in_a_path_are_shown(settings: object, tmp_path: Path) -> None:
    odd = tmp_path / "[red]home"
    output = eos("doctor", status=1, EOS_HOME=str(odd), EOS_BOOTSTRAP_SERVERS="127.0.0.1:1").stdout
    assert "[red]home" in output


def test_a_kafka_error_is_a_line() -> None:
    def check() -> str:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "no such file"))

    diagnosis = diagnose("Brokers", check)
    assert not diagnosis.ok
    assert "no such file" in diagnosis.detail
    assert diagnosis.remedy
