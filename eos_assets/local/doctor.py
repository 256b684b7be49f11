"""Looks at everything the platform needs on this machine: a line each, with the remedy where something is wrong."""

import importlib.metadata
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from confluent_kafka import KafkaException

from eos_assets.errors import EosError
from eos_assets.local.dagster_server import DAGSTER_PURPOSE, DAGSTER_SETTING
from eos_assets.local.probe import serves
from eos_assets.local.spark_server import SPARK_PURPOSE, SPARK_SETTING
from eos_assets.local.stack import Stack
from eos_assets.platform.cluster import connect
from eos_assets.platform.folders import NEEDED_BYTES, free_bytes, make_folder, require_space
from eos_assets.platform.jars import damaged, locked
from eos_assets.platform.java import find_java
from eos_assets.platform.ports import require_free
from eos_assets.platform.setting_types import CONNECT_PORT
from eos_assets.platform.settings import Settings


@dataclass(frozen=True)
class Diagnosis:
    """One line of the report. Only a finding that is not `ok` has a remedy."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def examine(settings: Settings) -> Iterator[Diagnosis]:
    stack = Stack(settings)
    yield finding("Java", lambda: f"{find_java().version} at {find_java().executable}")
    yield finding("Python", python)
    yield finding("Versions", versions)
    yield finding("Folder", lambda: f"{make_folder(settings.home)} is writable")
    yield finding("Disk", lambda: disk(settings))
    yield finding("Jars", lambda: jar_state(settings))
    local_kafka, local_spark = settings.bootstrap_servers is None, settings.spark in (None, "connect")
    if local_kafka:
        yield finding("Kafka ports", lambda: kafka_ports(settings, stack))
    if local_spark:
        yield finding("Spark port", lambda: port(settings.spark_connect_port, stack, SPARK_PURPOSE, SPARK_SETTING))
    if local_kafka or local_spark:  # else nobody needs `eos up`
        yield finding("Dagster port", lambda: port(settings.dagster_port, stack, DAGSTER_PURPOSE, DAGSTER_SETTING))
    yield finding("Servers", lambda: servers(stack))
    yield finding("Brokers", lambda: brokers(settings))
    address = settings.spark or ""
    if address.startswith(("sc://", "spark://")):
        yield finding("Spark", lambda: spark(address))


def finding(name: str, look: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(name, True, look())
    except EosError as error:
        return Diagnosis(name, False, error.problem, error.remedy)
    except KafkaException as error:
        return Diagnosis(name, False, f"Kafka says: {error.args[0]}.", "Check EOS_BOOTSTRAP_SERVERS and EOS_KAFKA_….")


def python() -> str:
    version = platform.python_version()
    if not (3, 11) <= tuple(int(n) for n in version.split(".")[:2]) < (3, 13):
        raise EosError(f"Python {version} is not supported.", "Use Python 3.11 or 3.12.")
    return version


def versions() -> str:
    """The installed packages against the versions that were tested together."""
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


def disk(settings: Settings) -> str:
    require_space(settings.home)
    return f"{free_bytes(settings.home) >> 30} GB free, {NEEDED_BYTES >> 30} GB needed"


def jar_state(settings: Settings) -> str:
    wrong = damaged(settings.jars_dir)
    if wrong:
        raise EosError(
            f"{len(wrong)} of {len(locked())} jars are missing or damaged in {settings.jars_dir}.",
            "`eos jars` fetches them; so does `eos up`.",
        )
    return f"{len(locked())} jars, checksums right"


def port(number: int, stack: Stack, purpose: str, setting: str) -> str:
    if any(server.address.endswith(f":{number}") for server in stack.running()):
        return f"{number}, in use by `eos up`"
    require_free(number, purpose, setting)
    return f"{number} is free"


def kafka_ports(settings: Settings, stack: Stack) -> str:
    """Every port that `eos up` would take, unless it runs already."""
    if stack.address_of("kafka"):
        return f"in use by `eos up`: {stack.address_of('kafka')}"
    wanted = range(settings.kafka_port, settings.kafka_port + 2 * (stack.formatted_brokers() or 1))
    for number in wanted:
        require_free(number, "Kafka", "EOS_KAFKA_PORT")
    return f"{wanted[0]} to {wanted[-1]} are free"


def servers(stack: Stack) -> str:
    dead = [server for server in stack.servers() if not server.process.alive()]
    if dead:
        raise EosError(
            "; ".join(f"{server.name} died, see {server.process.log}" for server in dead),
            "`eos up` starts it again with its data.",
        )
    return ", ".join(server.name for server in stack.running()) or "none running; `eos up` starts them"


def brokers(settings: Settings) -> str:
    if settings.bootstrap_servers is None and Stack(settings).address_of("kafka") is None:
        return "no cluster configured; `eos up` starts a local one"
    connection = connect(settings)
    found = connection.metadata(patience=5).brokers.values()
    return f"{len(found)} at {connection.bootstrap_servers}"


def spark(address: str) -> str:
    """One of its servers accepts connections; what a session needs besides, the first run tells."""
    named = address.partition("://")[2].partition("/")[0].split(",")
    servers = [server if re.search(r":\d+$", server) else f"{server}:{CONNECT_PORT}" for server in named]
    reached = next((server for server in servers if serves(f"tcp://{server}")), None)
    if reached is None:
        raise EosError(f"Nobody answers at {', '.join(servers)}.", "Start that Spark, or correct EOS_SPARK.")
    return f"{reached} answers"
