"""The servers of `eos up`, with pipelines of the tests beside the project's own."""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Producer

from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partition
from eos_assets.local.stack import Stack
from eos_assets.platform.project import project_root
from eos_assets.platform.settings import Settings
from eos_assets_tests.cli.command import eos
from eos_assets_tests.cli.free_ports import free_ports
from eos_assets_tests.metrics.test_exporter import of, scrape
from eos_assets_tests.scenarios.served.graphql import Graphql
from eos_assets_tests.scenarios.served.pipelines import SERVICE
from eos_assets_tests.short_lived import QUICKLY_COMPILED
from eos_assets_tests.waiting import wait_for

#: In seconds. Servers, a browser and runs share two cores.
PATIENCE = 300
Value = TypeVar("Value")


def eventually(condition: Callable[[], Value]) -> Value:
    """Evaluate the condition once a second, because each query costs the webserver a good part of a core."""
    return wait_for(condition, PATIENCE, pause=1.0)


@dataclass(frozen=True)
class ServedStack:
    """One running stack."""

    env: dict[str, str]
    service: Path
    connection: Connection
    dagster: Graphql

    @property
    def address(self) -> str:
        return self.dagster.address

    def eos(self, *args: str, status: int = 0) -> str:
        return eos(*args, status=status, **self.env).stdout

    def report(self, *args: str, status: int = 0) -> Any:
        return json.loads(self.eos(*args, "--json", status=status))

    def generate(self, *options: str) -> list[str]:
        """Generate files of transactions and return their paths."""
        return [line.split("  ")[0] for line in self.eos("files", "generate", *options).splitlines()]

    def announce(self, *files: str) -> None:
        self.eos("files", "announce", *files)

    def produce(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        """Produce records with equal key and value, by a plain producer."""
        producer = Producer({"bootstrap.servers": self.connection.bootstrap_servers})
        for value in values:
            producer.produce(topic, value, value, partition)
        producer.flush()

    def metric(self, name: str, **labels: object) -> float:
        """The sum of a metric of the exporter."""
        return of(scrape(self.report("status")["exporter"]), name, **labels)

    def count(self, topic: str) -> int:
        """The number of records that a read_committed consumer sees."""
        return sum(1 for p in self.connection.partitions(topic) for _ in read_partition(self.connection, topic, p))


def start(folder: Path, cleanup: ExitStack, *, entry_point: str | None) -> ServedStack:
    """Run `eos up` in a home of its own. `cleanup` ends it, also if the start fails."""
    home, service = folder / "home", folder / "service"
    path = [str(project_root(Path(__file__).parent)), os.environ.get("PYTHONPATH", "")]
    if entry_point:
        path.insert(0, str(package(folder / "package", entry_point)))
    env = {
        **free_ports(),
        **QUICKLY_COMPILED,
        "EOS_HOME": str(home),
        "EOS_BOOTSTRAP_SERVERS": "",
        "EOS_SPARK": "",
        "EOS_FILES_ROOT": str(folder / "incoming"),
        SERVICE: str(service),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
    }
    cleanup.callback(lambda: Stack(Settings.load({**os.environ, **env})).down())
    eos("up", status=0, **env)
    report = json.loads(eos("status", "--json", status=0, **env).stdout)
    eos("topics", "create", status=0, **env)
    return ServedStack(env, service, Connection(report["bootstrap_servers"]), Graphql(report["dagster"]))


def package(folder: Path, module: str) -> Path:
    """An installed package that declares its pipelines by an entry point, as a user's does."""
    about = folder / "eos_tests_pipelines-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: eos-tests-pipelines\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[eos_assets.pipelines]\ntests = {module}\n")
    return folder
