"""`eos doctor` checks the ports of `eos up` only where it is needed, and connects to a Spark elsewhere."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from eos_assets.local import doctor
from eos_assets.local.doctor import Diagnosis, examine
from eos_assets.local.ports import ReservedPort
from eos_assets.local.remembered_ports import Ports, RememberedPorts
from eos_assets.local.stack import Stack
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.running import Server
from eos_assets.platform.server_process import ServerProcess, start_time
from eos_assets.platform.settings import Settings

PORTS = {"Kafka ports", "Spark port", "Dagster port"}


@pytest.fixture
def listening() -> Iterator[str]:
    """The address of a server that accepts connections."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"{LOOPBACK}:{server.getsockname()[1]}"


@pytest.fixture
def here(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(doctor, "check_brokers", lambda _: "not checked")
    monkeypatch.setattr(doctor, "exposed_brokers", lambda _: [])
    return settings.model_copy(update={"home": tmp_path, "bootstrap_servers": None, "spark": None})


def diagnoses(settings: Settings) -> dict[str, Diagnosis]:
    return {diagnosis.name: diagnosis for diagnosis in examine(settings)}


@pytest.mark.parametrize(
    ("kafka", "spark", "ports"),
    [
        (None, None, PORTS),
        (None, "connect", PORTS),
        ("kafka:9092", None, {"Spark port", "Dagster port"}),
        (None, "yarn", {"Kafka ports", "Dagster port"}),
        ("kafka:9092", "yarn", set()),
    ],
)
def test_only_the_ports_of_servers_that_are_needed_are_checked(
    here: Settings, kafka: str | None, spark: str | None, ports: set[str]
) -> None:
    names = set(diagnoses(here.model_copy(update={"bootstrap_servers": kafka, "spark": spark})))
    assert names & PORTS == ports
    assert "Spark" not in names


def test_the_pipelines_that_are_found_are_listed(here: Settings) -> None:
    named = here.model_copy(update={"modules": ("eos_assets.pipelines",)})
    assert "balances, file_transactions, squares" in diagnoses(named)["Pipelines"].detail
    wrong = diagnoses(here.model_copy(update={"modules": ("no.such",)}))["Pipelines"]
    assert not wrong.ok
    assert "Module no.such cannot be imported" in wrong.detail


def test_the_ports_of_the_last_time_are_checked(here: Settings, listening: str) -> None:
    port = int(listening.rpartition(":")[2])
    RememberedPorts(here.home).write(Ports(9092, spark=port, dagster=3000, exporter=9464), dagster=True, exporter=True)
    settings = Settings.load({"EOS_HOME": str(here.home), "EOS_JARS_DIR": str(here.jars_dir)})
    diagnosis = diagnoses(settings)["Spark port"]
    assert diagnosis.detail.startswith(f"Port {port}, wanted for Spark Connect, is taken by process {os.getpid()}")


def test_a_port_of_a_server_of_eos_up_is_in_use_by_it(here: Settings) -> None:
    process = ServerProcess("Kafka broker 1", os.getpid(), start_time(os.getpid()), here.home / "log")
    Stack(here).save([Server("kafka-1", f"{LOOPBACK}:9192", here.home, process)])
    detail = diagnoses(here)["Kafka ports"].detail
    assert detail == f"9192, in use by `eos up` (kafka-1, process {os.getpid()})"


@pytest.mark.parametrize("address", ["sc://{}", "sc://{}/;token=kanarienvogel", "spark://{}", "spark://127.0.0.1:1,{}"])
def test_a_spark_elsewhere_is_reached(here: Settings, listening: str, address: str) -> None:
    assert diagnoses(here.model_copy(update={"spark": address.format(listening)}))["Spark"] == Diagnosis(
        "Spark", True, f"{listening} answers"
    )


def test_an_unreachable_spark_is_named_without_its_token(here: Settings) -> None:
    port = ReservedPort()
    unreachable = here.model_copy(update={"spark": f"sc://{LOOPBACK}:{port.number}/;token=kanarienvogel"})
    diagnosis = diagnoses(unreachable)["Spark"]
    port.release()
    assert not diagnosis.ok
    assert diagnosis.detail == f"No Spark answers at {LOOPBACK}:{port.number}."
    assert "EOS_SPARK" in diagnosis.remedy
