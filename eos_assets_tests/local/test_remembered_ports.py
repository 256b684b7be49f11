"""`eos up` takes the ports of the last time again, unless others are chosen, and names what took them."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.errors import EosError
from eos_assets.local.ports import ReservedPort
from eos_assets.local.remembered_ports import Ports, RememberedPorts
from eos_assets.local.stack import Stack, check_ports
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import Settings

LAST = Ports(kafka=9192, spark=15102, dagster=3100, exporter=9564)


@pytest.fixture
def remembered(tmp_path: Path) -> RememberedPorts:
    return RememberedPorts(tmp_path)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


def test_the_first_ports_are_the_defaults(remembered: RememberedPorts) -> None:
    assert remembered.choose(Settings.load({})) == Ports(kafka=9092, spark=15002, dagster=3000, exporter=9464)


def test_the_last_ports_are_taken_again(remembered: RememberedPorts) -> None:
    remembered.write(LAST, dagster=True, exporter=True)
    assert remembered.choose(Settings.load({})) == LAST


def test_a_setting_comes_before_the_last_port_and_an_option_before_both(remembered: RememberedPorts) -> None:
    remembered.write(LAST, dagster=True, exporter=True)
    settings = Settings.load({"EOS_KAFKA_PORT": "9092", "EOS_DAGSTER_PORT": "3000"})
    assert remembered.choose(settings, dagster=3200) == Ports(kafka=9092, spark=15102, dagster=3200, exporter=9564)


def test_the_ports_of_dagster_and_the_exporter_are_remembered_from_when_they_were_started(
    remembered: RememberedPorts,
) -> None:
    remembered.write(LAST, dagster=True, exporter=True)
    remembered.write(Ports(kafka=9292, spark=15202, dagster=3000, exporter=9464), dagster=False, exporter=False)
    assert remembered.choose(Settings.load({})) == Ports(kafka=9292, spark=15202, dagster=3100, exporter=9564)


@pytest.mark.parametrize("last", [True, False])
def test_a_taken_port_is_named_with_its_holder_and_as_the_last_one(
    settings: Settings, tmp_path: Path, taken: int, last: bool
) -> None:
    stack = Stack(settings.model_copy(update={"home": tmp_path}))
    free = [ReservedPort() for _ in range(3)]
    ports = Ports(kafka=taken, spark=free[0].number, dagster=free[1].number, exporter=free[2].number)
    when = " as in the last `eos up`" if last else ""
    with pytest.raises(EosError) as error:
        check_ports(
            stack.cluster(None, taken, []), [], ports, {"kafka": taken} if last else {}, dagster=True, exporter=True
        )
    assert f"Port {taken}, wanted for Kafka broker 1{when}, is taken by process {os.getpid()}" in error.value.problem
    assert "--kafka-port" in error.value.remedy
    for port in free:
        port.release()
