"""Checks what the platform needs on this machine: one line each, with the remedy where something is wrong."""

import importlib.metadata
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from confluent_kafka import KafkaException

from eos_assets.declare.registry import NAME_MODULES, find_pipelines
from eos_assets.errors import EosError
from eos_assets.local.broker import PORT_SETTING
from eos_assets.local.dagster_server import DAGSTER_PURPOSE, DAGSTER_SETTING
from eos_assets.local.disk import NEEDED_BYTES, free_bytes, require_space
from eos_assets.local.exporter_server import EXPORTER_PURPOSE, EXPORTER_SETTING
from eos_assets.local.exposure import exposed_brokers, exposed_servers
from eos_assets.local.ports import require_free
from eos_assets.local.probe import serves
from eos_assets.local.spark_server import SPARK_PURPOSE, SPARK_SETTING
from eos_assets.local.stack import Stack, first_broker_port, port_of
from eos_assets.platform.cluster import connect
from eos_assets.platform.folders import make_folder
from eos_assets.platform.jars import find_damaged, read_lock
from eos_assets.platform.java import find_java
from eos_assets.platform.running import RunningServers, Server, servers_died
from eos_assets.platform.setting_types import CONNECT_PORT
from eos_assets.platform.settings import Settings

EXPOSURE_REMEDY = (
    "Let it listen on loopback, or only a trusted network reach it; for brokers use TLS and SASL (docs/security.md)."
)


@dataclass(frozen=True)
class Diagnosis:
    """One line of the report. Only one that is not `ok`, or that warns, has a remedy."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""

    @property
    def warns(self) -> bool:
        """Whether it works, but not as it should."""
        return self.ok and bool(self.remedy)


def examine(settings: Settings) -> Iterator[Diagnosis]:
    stack = Stack(settings)
    yield diagnose("Java", lambda: f"{find_java().version} at {find_java().executable}")
    yield diagnose("Python", check_python)
    yield diagnose("Versions", check_versions)
    yield diagnose("Pipelines", lambda: check_pipelines(settings))
    yield diagnose("Folder", lambda: f"{make_folder(settings.home)} is writable")
    yield diagnose("Disk", lambda: check_disk(settings))
    yield diagnose("Jars", lambda: check_jars(settings))
    yield from examine_ports(settings, stack)
    yield diagnose("Servers", lambda: check_servers(stack))
    brokers = diagnose("Brokers", lambda: check_brokers(settings))
    yield brokers
    yield examine_exposure(settings, stack, brokers_answer=brokers.ok)
    address = settings.spark or ""
    if address.startswith(("sc://", "spark://")):
        yield diagnose("Spark", lambda: check_spark(address))


def examine_ports(settings: Settings, stack: Stack) -> Iterator[Diagnosis]:
    """Only the ports of servers that `eos up` would start with these settings."""
    ports = stack.remembered_ports.choose(settings)
    local_kafka, local_spark = settings.bootstrap_servers is None, settings.spark in (None, "connect")
    if local_kafka:
        yield diagnose("Kafka ports", lambda: check_kafka_ports(ports.kafka, stack))
    if local_spark:
        yield diagnose("Spark port", lambda: check_port("spark", ports.spark, stack, SPARK_PURPOSE, SPARK_SETTING))
    if local_kafka or local_spark:
        yield diagnose(
            "Dagster port",
            lambda: check_port("dagster-webserver", ports.dagster, stack, DAGSTER_PURPOSE, DAGSTER_SETTING),
        )
        yield diagnose(
            "Exporter port",
            lambda: check_port("exporter", ports.exporter, stack, EXPORTER_PURPOSE, EXPORTER_SETTING),
        )


def diagnose(name: str, check: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(name, True, check())
    except EosError as error:
        return Diagnosis(name, False, error.problem, error.remedy)
    except KafkaException as error:
        return Diagnosis(
            name, False, f"Kafka reported: {error.args[0]}.", "Check EOS_BOOTSTRAP_SERVERS and EOS_KAFKA_…."
        )


def check_python() -> str:
    version = platform.python_version()
    if not (3, 11) <= tuple(int(n) for n in version.split(".")[:2]) < (3, 13):
        raise EosError(f"Python {version} is not supported.", "Use Python 3.11 or 3.12.")
    return version


def check_versions() -> str:
    """Compare the installed packages with the versions that were tested together."""
    pinned = {}
    for requirement in importlib.metadata.requires("eos-assets") or []:
        match = re.fullmatch(r"([\w-]+)(?:\[\w+\])?==([\w.]+)", requirement)
        if match:
            pinned[match.group(1)] = match.group(2)
    differing = []
    for name, tested in pinned.items():
        installed = importlib.metadata.version(name)
        if installed != tested:
            differing.append(f"{name} is {installed}, tested with {tested}")
    if differing:
        raise EosError("; ".join(differing), "Install the locked versions: `make install`.")
    return ", ".join(f"{name} {version}" for name, version in pinned.items())


def check_pipelines(settings: Settings) -> str:
    return ", ".join(find_pipelines(settings.modules)) or f"none found. {NAME_MODULES}"


def check_disk(settings: Settings) -> str:
    require_space(settings.home)
    return f"{free_bytes(settings.home) >> 30} GB free, {NEEDED_BYTES >> 30} GB needed"


def check_jars(settings: Settings) -> str:
    damaged, total = find_damaged(settings.jars_dir), len(read_lock())
    if damaged:
        raise EosError(
            f"{len(damaged)} of {total} jars are missing or damaged in {settings.jars_dir}.",
            "Fetch them with `eos jars`; `eos up` fetches them, too.",
        )
    return f"{total} jars, checksums correct"


def check_port(name: str, number: int, stack: Stack, purpose: str, setting: str) -> str:
    """The port is free, or in use by the server of `eos up` with this name."""
    for server in stack.running():
        if server.name == name:
            return in_use(server)
    require_free(number, purpose, setting)
    return f"{number} is free"


def check_kafka_ports(first: int, stack: Stack) -> str:
    """Both ports of each broker are free, or in use by it."""
    running = {server.name: server for server in stack.running()}
    first = first_broker_port(running) or first
    details = []
    for broker in range(1, (stack.formatted_brokers() or 1) + 1):
        client, controller = first + 2 * (broker - 1), first + 2 * broker - 1
        if server := running.get(f"kafka-{broker}"):
            details.append(in_use(server))
            continue
        for number in (client, controller):
            require_free(number, f"Kafka broker {broker}", PORT_SETTING)
        details.append(f"{client} and {controller} are free")
    return "; ".join(details)


def in_use(server: Server) -> str:
    return f"{port_of(server)}, in use by `eos up` ({server.name}, process {server.process.pid})"


def check_servers(stack: Stack) -> str:
    if dead := [server for server in stack.servers() if not server.process.is_alive()]:
        raise servers_died(dead)
    return ", ".join(server.name for server in stack.running()) or "none running; `eos up` starts them"


def check_brokers(settings: Settings) -> str:
    if settings.bootstrap_servers is None and Stack(settings).serving_address("kafka") is None:
        return "no cluster configured; `eos up` starts a local one"
    connection = connect(settings)
    brokers = connection.metadata(seconds=5).brokers
    return f"{len(brokers)} at {connection.bootstrap_servers}"


def examine_exposure(settings: Settings, stack: Stack, *, brokers_answer: bool) -> Diagnosis:
    """Warn of servers that other machines reach without TLS and without a login."""
    secured = RunningServers(settings.home).security() is not None
    exposed = exposed_servers(stack.running(), secured=secured)
    if settings.bootstrap_servers and brokers_answer:
        brokers = exposed_brokers(connect(settings))
        exposed += [f"the broker {address} has neither TLS nor SASL" for address in brokers]
    if not exposed:
        return Diagnosis("Exposure", True, "no server without a login is known beyond loopback")
    return Diagnosis("Exposure", True, "; ".join(exposed), EXPOSURE_REMEDY)


def check_spark(address: str) -> str:
    """One of its servers accepts connections. Whether a session can be created is seen only in a run."""
    named = address.partition("://")[2].partition("/")[0].split(",")
    servers = [server if re.search(r":\d+$", server) else f"{server}:{CONNECT_PORT}" for server in named]
    answering = next((server for server in servers if serves(f"tcp://{server}")), None)
    if answering is None:
        raise EosError(f"No Spark answers at {', '.join(servers)}.", "Start that Spark, or correct EOS_SPARK.")
    return f"{answering} answers"
