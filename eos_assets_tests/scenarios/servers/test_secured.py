"""`eos up --secured`: every command logs in without further settings, and the data stays secured."""

import json
from pathlib import Path

import pytest

from eos_assets.local.stack import Stack
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings
from eos_assets_tests.cli.command import eos


@pytest.mark.timeout(600)
def test_a_secured_stack_works_and_stays_secured(home: Path, ports: tuple[int, int]) -> None:
    eos("up", "--secured", "--no-dagster")
    eos("topics", "create")
    eos("fill", "datasource", "--count", "300")
    report = json.loads(eos("run", "squares", "--json").stdout)
    assert report["complete"]
    assert json.loads(eos("verify", "squares", "--json").stdout)["holds"]
    eos("audit", "squares")
    eos("checks", "squares")
    assert "holds the data of a secured cluster" in eos("up", "--not-secured", status=1).stderr
    stack = Stack(Settings.load())
    assert (home / "kafka" / "security").stat().st_mode & 0o077 == 0, "only its owner may read the passwords"
    assert (home / "kafka" / "broker-1").stat().st_mode & 0o077 == 0
    assert "No Kafka broker answers" in eos("plan", "squares", status=1, EOS_BOOTSTRAP_SERVERS=plain(stack)).stderr
    for server in stack.servers():
        assert connect(Settings.load()).security.password not in server.process.log.read_text()
    eos("down", "--delete-data")
    assert not (home / "kafka").exists()


def plain(stack: Stack) -> str:
    """The brokers, as a setting that comes without credentials."""
    address = stack.address_of("kafka")
    assert address is not None
    return address
