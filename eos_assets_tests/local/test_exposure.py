"""A server without a login that listens beyond loopback is named by `eos doctor`."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.kafka.auth import Security
from eos_assets.kafka.connection import Connection
from eos_assets.local import doctor
from eos_assets.local.doctor import examine_exposure
from eos_assets.local.exposure import exposed_brokers, exposed_servers, is_loopback
from eos_assets.local.stack import Stack
from eos_assets.platform.running import Server
from eos_assets.platform.server_process import ServerProcess, start_time
from eos_assets.platform.settings import Settings


@pytest.fixture
def wide() -> Iterator[int]:
    """The port of a server on all addresses of this machine, which accepts nothing."""
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen(0)
        yield server.getsockname()[1]


def this_process(name: str, folder: Path) -> Server:
    process = ServerProcess(name, os.getpid(), start_time(os.getpid()), folder / "log")
    return Server(name, "127.0.0.1:1", folder, process)


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.7", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, alone: bool) -> None:
    assert is_loopback(host) == alone


def test_a_server_on_all_addresses_is_a_warning(settings: Settings, tmp_path: Path, wide: int) -> None:
    here = settings.model_copy(update={"home": tmp_path, "bootstrap_servers": None})
    stack = Stack(here)
    assert not examine_exposure(here, stack, brokers_answer=True).warns
    stack.save([this_process("dagster-webserver", tmp_path)])
    diagnosis = examine_exposure(here, stack, brokers_answer=True)
    assert f"dagster-webserver listens at 0.0.0.0:{wide}" in diagnosis.detail
    assert diagnosis.warns
    assert diagnosis.ok, "the status of the command is not changed"


def test_a_secured_kafka_may_listen_anywhere(tmp_path: Path, wide: int) -> None:
    kafka = this_process("kafka-1", tmp_path)
    assert f"kafka-1 listens at 0.0.0.0:{wide}" in exposed_servers([kafka], secured=False)
    assert exposed_servers([kafka], secured=True) == []


def test_an_open_broker_beyond_loopback_is_a_warning(
    connection: Connection, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exposed_brokers(connection) == []
    monkeypatch.setattr("eos_assets.local.exposure.is_loopback", lambda _: False)
    assert exposed_brokers(connection) == [connection.bootstrap_servers]
    assert exposed_brokers(Connection("nowhere:9093", security=Security("SASL_SSL"))) == []
    here = settings.model_copy(update={"home": tmp_path, "bootstrap_servers": connection.bootstrap_servers})
    diagnosis = examine_exposure(here, Stack(here), brokers_answer=True)
    assert diagnosis.detail == f"the broker {connection.bootstrap_servers} has neither TLS nor SASL"
    assert diagnosis.remedy == doctor.EXPOSURE_REMEDY
