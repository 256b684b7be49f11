"""The servers of `eos up`: started together, recorded in one file, and stopped without touching any other process."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.broker_security import BrokerSecurity
from eos_assets.local.dagster_server import DAGSTER_PURPOSE, DAGSTER_SETTING, DagsterServer
from eos_assets.local.disk import require_space
from eos_assets.local.exporter_server import EXPORTER_PURPOSE, EXPORTER_SETTING, ExporterServer
from eos_assets.local.marker import marked_processes, marker, orphans
from eos_assets.local.ports import require_distinct, require_free
from eos_assets.local.process import end_processes
from eos_assets.local.remembered_ports import Ports, RememberedPorts
from eos_assets.local.spark_server import SPARK_PURPOSE, SPARK_SETTING, SparkConnectServer
from eos_assets.platform.folders import explain_disk_errors, hold_lock, make_folder, write_atomically
from eos_assets.platform.java import find_java
from eos_assets.platform.running import RunningServers, Server
from eos_assets.platform.settings import Settings

#: Settings that name a file or folder: the servers run in another working directory than the caller.
PATHS = (
    "EOS_FILES_ROOT",
    "EOS_IVY_SETTINGS",
    "EOS_KAFKA_CA_FILE",
    "EOS_KAFKA_CERTIFICATE_FILE",
    "EOS_KAFKA_KEY_FILE",
)
#: All servers, in the order in which they are started and listed.
NAMES = ("kafka-1", "kafka-2", "kafka-3", "spark", "dagster-webserver", "dagster-daemon", "exporter")
#: Those that show the pipelines of the modules with which they were started.
SHOWING = ("dagster", "exporter")

MODULES = "EOS_MODULES"

#: Called with what is being done now, in words.
Progress = Callable[[str], None]


class Stack(RunningServers):
    """The servers of one EOS_HOME, to be started and stopped."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.home)
        self.settings = settings
        self.spark_folder = self.home / "spark"
        self.dagster_folder = self.home / "dagster"
        self.exporter_folder = self.home / "exporter"
        self.remembered_ports = RememberedPorts(self.home)

    def lock(self) -> AbstractContextManager[None]:
        busy = f"Another `eos up` or `eos down` is at work in {self.home}"
        return hold_lock(self.home / "stack.lock", wait=False, busy=busy)

    def up(
        self,
        *,
        brokers: int | None,
        ports: Ports,
        dagster: bool,
        exporter: bool,
        on_progress: Progress,
        secured: bool | None = None,
    ) -> list[Server]:
        """Start the servers that are not running. If that fails or is interrupted, stop the started ones again."""
        find_java()
        make_folder(self.home)
        with self.lock():
            require_space(self.home)
            kept = self.running()
            self.end_orphans(kept)  # left by an `eos up` that was killed before it could record them
            if dagster or exporter:
                self.modules(kept)  # before anything is started
            cluster = self.cluster(brokers, ports.kafka, kept, secured)
            check_ports(cluster, kept, ports, self.remembered_ports.read(), dagster=dagster, exporter=exporter)
            try:
                return self.start(cluster, kept, ports, on_progress, dagster=dagster, exporter=exporter)
            except BaseException:
                self.end_orphans(kept)
                self.save(kept)
                raise

    def start(
        self,
        cluster: KafkaCluster,
        kept: list[Server],
        ports: Ports,
        on_progress: Progress,
        *,
        dagster: bool,
        exporter: bool,
    ) -> list[Server]:
        """Start Kafka, Spark, Dagster and the exporter, and record each as soon as it is running."""
        servers = {server.name: server for server in kept}

        def record(*started: Server) -> None:
            servers.update({server.name: server for server in started})
            self.save(in_order(servers.values()))

        on_progress(f"Starting Kafka ({len(cluster.nodes)} broker{'s' * (len(cluster.nodes) > 1)}) …")
        cluster.start()
        record(*kafka_servers(cluster))
        if "spark" not in servers:
            on_progress("Starting Spark Connect …")
            record(self.start_spark(ports.spark))
        if dagster:
            on_progress("Starting Dagster …")
            record(*self.start_dagster(ports.dagster, kept))
        if exporter and "exporter" not in servers:
            on_progress("Starting the exporter …")
            record(self.start_exporter(ports.exporter, kept))
        self.remembered_ports.write(used_ports(servers, ports), dagster=dagster, exporter=exporter)
        return in_order(servers.values())

    def cluster(
        self, brokers: int | None, first_port: int, kept: list[Server], secured: bool | None = None
    ) -> KafkaCluster:
        """The cluster of this home. Its data determines the number of brokers and whether they are secured; another
        choice is refused."""
        count = self.broker_count(brokers)
        running = {server.name: server for server in kept if server.name.startswith("kafka")}
        cluster = KafkaCluster(
            self.kafka_folder,
            brokers=count,
            first_port=first_broker_port(running) or first_port,
            settings=self.settings,
            secured=self.is_secured(secured),
            env=marker(self.home),
            tied=False,
        )
        for node in cluster.nodes:
            if f"kafka-{node.id}" in running:
                node.process = running[f"kafka-{node.id}"].process
        return cluster

    def broker_count(self, wanted: int | None) -> int:
        formatted = self.formatted_brokers()
        count = wanted or formatted or 1
        if formatted and count != formatted:
            raise EosError(
                f"{self.kafka_folder} holds the data of {formatted} broker(s), not {count}.",
                f"Use `eos up --brokers {formatted}`, or `eos down --delete-data` first, or set another EOS_HOME.",
            )
        return count

    def is_secured(self, wanted: bool | None) -> bool:
        formatted = self.formatted_brokers()
        security = BrokerSecurity(self.kafka_folder / "security")
        if not formatted:  # an `eos up --secured` that failed does not determine this one
            security.remove()
        secured = security.exists()
        if formatted and wanted is not None and wanted != secured:
            raise EosError(
                f"{self.kafka_folder} holds the data of {'a secured' if secured else 'an open'} cluster.",
                f"Use `eos up --{'' if secured else 'not-'}secured`, or `eos down --delete-data` first, or set another "
                "EOS_HOME.",
            )
        return secured if wanted is None else wanted

    def formatted_brokers(self) -> int:
        """The number of brokers that the data belongs to. One of three may have lost its own data."""
        folders = [self.kafka_folder / f"broker-{number}" for number in (1, 2, 3)]
        if not any(os.path.exists(folder / "data" / "meta.properties") for folder in folders):
            return 0
        return 3 if any(os.path.exists(folder) for folder in folders[1:]) else 1

    def start_spark(self, port: int) -> Server:
        server = SparkConnectServer(
            self.spark_folder, port=port, settings=self.settings, env=marker(self.home), tied=False
        )
        return Server("spark", server.address, self.spark_folder, server.start())

    def start_dagster(self, port: int, kept: list[Server]) -> list[Server]:
        """The webserver and the daemon; one that is running is kept."""
        running = {server.name: server for server in kept}
        if "dagster-webserver" in running:
            port = port_of(running["dagster-webserver"])
        server = DagsterServer(self.dagster_folder, port=port, env=self.environment(kept), tied=False)
        webserver = running.get("dagster-webserver") or Server(
            "dagster-webserver", server.address, self.dagster_folder, server.start_webserver()
        )
        daemon = running.get("dagster-daemon") or Server(
            "dagster-daemon", "", self.dagster_folder, server.start_daemon()
        )
        return [webserver, daemon]

    def start_exporter(self, port: int, kept: list[Server]) -> Server:
        server = ExporterServer(self.exporter_folder, port=port, env=self.environment(kept), tied=False)
        return Server("exporter", server.address, self.exporter_folder, server.start())

    def modules(self, kept: Iterable[Server]) -> str:
        """The modules that Dagster and the exporter show: those that a running server was started with, or else those
        of the settings. Modules that a running server does not show are refused."""
        for server in kept:
            process = server.process.handle()
            if server.name.startswith(SHOWING) and process:
                name = "The exporter" if server.name == "exporter" else "Dagster"
                served = process.environ().get(MODULES, "")
                if new := [module for module in self.settings.modules if module not in served.split(",")]:
                    raise EosError(
                        f"{name} is running without the pipelines of {', '.join(new)}.",
                        "Stop it with `eos down`, then start it again with `eos up`.",
                    )
                return served
        return ",".join(self.settings.modules)

    def environment(self, kept: Iterable[Server] = ()) -> dict[str, str]:
        """The settings with which Dagster's runs and the exporter find the servers of this home from any working
        directory."""
        paths = {name: str(Path(os.environ[name]).absolute()) for name in PATHS if os.environ.get(name)}
        return {
            **marker(self.home),
            **paths,
            MODULES: self.modules(kept),
            "EOS_PY_FILES": ",".join(map(str, self.settings.py_files)),
            "EOS_HOME": str(self.home),
            "EOS_JARS_DIR": str(self.settings.jars_dir),
            "EOS_LAKE": self.settings.lake,
        }

    def down(self, *, delete_data: bool = False) -> int:
        """Stop every server of this home, recorded or not, and nothing else. Return the number of processes."""
        if not os.path.exists(self.home):
            return 0
        with self.lock():
            processes = marked_processes(self.home)
            end_processes(processes)
            end_processes(marked_processes(self.home), seconds=1)  # started while their parents were being stopped
            self.record.unlink(missing_ok=True)
            if delete_data:
                with explain_disk_errors(self.home):
                    self.remembered_ports.path.unlink(missing_ok=True)
                    for folder in (
                        self.kafka_folder,
                        self.spark_folder,
                        self.dagster_folder,
                        self.exporter_folder,
                        self.home / "lake",
                    ):
                        shutil.rmtree(folder, ignore_errors=True)
        return len(processes)

    def end_orphans(self, kept: list[Server]) -> None:
        end_processes(orphans(self.home, (server.process for server in kept)))

    def save(self, servers: list[Server]) -> None:
        write_atomically(self.record, json.dumps([asdict(server) for server in servers], indent=2, default=str))


def check_ports(
    cluster: KafkaCluster,
    kept: list[Server],
    ports: Ports,
    last: Mapping[str, int],
    *,
    dagster: bool,
    exporter: bool,
) -> None:
    """Refuse ports that collide or are taken, before any server is started."""
    names = {server.name for server in kept}
    wanted = [("kafka", ports.kafka, port) for node in cluster.nodes if not node.is_running() for port in node.ports()]
    if "spark" not in names:
        wanted.append(("spark", ports.spark, (ports.spark, SPARK_PURPOSE, SPARK_SETTING)))
    if dagster and "dagster-webserver" not in names:
        wanted.append(("dagster", ports.dagster, (ports.dagster, DAGSTER_PURPOSE, DAGSTER_SETTING)))
    if exporter and "exporter" not in names:
        wanted.append(("exporter", ports.exporter, (ports.exporter, EXPORTER_PURPOSE, EXPORTER_SETTING)))
    require_distinct([*cluster.ports(), *(port for kind, _, port in wanted if kind != "kafka")])
    for kind, first, (number, purpose, setting) in wanted:
        require_free(number, f"{purpose} as in the last `eos up`" if last.get(kind) == first else purpose, setting)


def kafka_servers(cluster: KafkaCluster) -> list[Server]:
    return [Server(f"kafka-{node.id}", node.address, node.data, node.process) for node in cluster.nodes if node.process]


def in_order(servers: Iterable[Server]) -> list[Server]:
    return sorted(servers, key=lambda server: NAMES.index(server.name))


def used_ports(servers: Mapping[str, Server], chosen: Ports) -> Ports:
    """The ports of the servers that are running; a kept server keeps its port, whatever was chosen."""
    return Ports(
        kafka=first_broker_port(servers) or chosen.kafka,
        spark=port_of(servers["spark"]),
        dagster=port_of(servers["dagster-webserver"]) if "dagster-webserver" in servers else chosen.dagster,
        exporter=port_of(servers["exporter"]) if "exporter" in servers else chosen.exporter,
    )


def first_broker_port(servers: Mapping[str, Server]) -> int | None:
    """The first port of a cluster, from any of its brokers: each takes two ports."""
    for name, server in servers.items():
        if name.startswith("kafka"):
            return port_of(server) - 2 * (int(name.rpartition("-")[2]) - 1)
    return None


def port_of(server: Server) -> int:
    return int(server.address.rpartition(":")[2].partition("/")[0])
