"""A server of `eos up` that died is named by every command that needs it, with its log and the remedy."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.local.stack import Stack
from eos_assets.platform.cluster import connect
from eos_assets.platform.running import Server
from eos_assets.platform.server_process import ServerProcess, start_time
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import spark_address
from eos_assets_tests.cli.command import eos


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a home of its own, without another cluster."""
    for name in ("EOS_BOOTSTRAP_SERVERS", "EOS_SPARK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EOS_HOME", str(tmp_path))
    return Settings.load()


def server(settings: Settings, name: str, address: str, *, alive: bool) -> Server:
    """A record of this process, or of one that had its id before."""
    process = ServerProcess(name, os.getpid(), start_time(os.getpid()), settings.home / f"{name}.log")
    return Server(name, address, settings.home, process if alive else replace(process, started=1.0))


def record(settings: Settings, *servers: Server) -> Stack:
    stack = Stack(settings)
    stack.save(list(servers))
    return stack


def brokers(settings: Settings, *alive: bool) -> list[Server]:
    return [
        server(settings, f"kafka-{n + 1}", f"127.0.0.1:{9092 + 2 * n}", alive=state) for n, state in enumerate(alive)
    ]


@pytest.mark.parametrize("alive", [(False,), (True, False, False)])
def test_brokers_that_died_are_named_instead_of_a_connection_error(own: Settings, alive: tuple[bool, ...]) -> None:
    servers = brokers(own, *alive)
    record(own, *servers)
    with pytest.raises(EosError) as error:
        connect(own)
    for dead in (server for server in servers if not server.process.is_alive()):
        assert f"{dead.name} died, see {dead.process.log}" in error.value.problem
    assert "kafka-1 died" not in error.value.problem or not alive[0]
    assert "`eos up`" in error.value.remedy


def test_two_of_three_brokers_serve_without_the_third(own: Settings) -> None:
    record(own, *brokers(own, True, False, True))
    assert connect(own).bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9096"


@pytest.mark.parametrize("spark", [None, "connect"])
def test_a_spark_that_died_is_named_unless_another_one_is_set(own: Settings, spark: str | None) -> None:
    record(own, server(own, "spark", "sc://127.0.0.1:15002", alive=False))
    with pytest.raises(EosError, match=r"spark died, see .*spark\.log"):
        spark_address(own.model_copy(update={"spark": spark}))
    assert spark_address(own.model_copy(update={"spark": "in-process"})).startswith("local")


def test_what_was_never_started_is_not_dead(own: Settings) -> None:
    with pytest.raises(EosError, match="No Kafka cluster is known"):
        connect(own)
    assert spark_address(own).startswith("local")


def test_the_status_names_what_died_and_the_command_that_restarts_it(own: Settings) -> None:
    record(own, *brokers(own, True), server(own, "dagster-daemon", "", alive=False))
    shown = " ".join(eos("status").stdout.split())
    assert "dagster-daemon died, see" in shown
    assert "Start it again with `eos up`" in shown
    assert "kafka-1 died" not in shown
