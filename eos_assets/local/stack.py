"""What `eos up` runs on this machine: started together, recorded in one file, ended exactly."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

import psutil

from eos_assets.errors import EosError
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.broker_security import BrokerSecurity
from eos_assets.local.dagster_server import DAGSTER_PURPOSE, DAGSTER_SETTING, DagsterServer
from eos_assets.local.spark_server import SPARK_PURPOSE, SPARK_SETTING, SparkConnectServer
from eos_assets.platform.folders import clear_disk_errors, exclusive, make_folder, require_space, write_whole
from eos_assets.platform.java import find_java
from eos_assets.platform.ports import require_apart, require_free
from eos_assets.platform.process import end_processes
from eos_assets.platform.running import RunningServers, Server
from eos_assets.platform.settings import Settings

#: In the environment of every server of a stack, and of their children: how `eos down` finds all of them,
#: also those that a crashed `eos up` had no time to record.
MARKER = "EOS_STACK"
#: Settings that name a file or folder: the servers work in another folder than whoever starts them.
PATHS = (
    "EOS_FILES_ROOT",
    "EOS_IVY_SETTINGS",
    "EOS_KAFKA_CA_FILE",
    "EOS_KAFKA_CERTIFICATE_FILE",
    "EOS_KAFKA_KEY_FILE",
)


class Stack(RunningServers):
    """The servers of one EOS_HOME, to be started and ended."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.home)
        self.settings = settings
        self.spark_folder = self.home / "spark"
        self.dagster_folder = self.home / "dagster"

    def lock(self) -> AbstractContextManager[None]:
        busy = f"Another `eos up` or `eos down` is at work in {self.home}"
        return exclusive(self.home / "stack.lock", wait=False, busy=busy)

    def up(
        self,
        *,
        brokers: int | None,
        kafka_port: int,
        spark_port: int,
        dagster_port: int | None,
        say: Callable[[str], None],
        secured: bool | None = None,
    ) -> list[Server]:
        """Starts what does not run yet. If it fails or is interrupted, what it started is ended again."""
        find_java()
        make_folder(self.home)
        with self.lock():
            require_space(self.home)
            kept = self.running()
            end_processes(self.strangers(kept))  # left by an `eos up` that was killed before it could record them
            cluster = self.cluster(brokers, kafka_port, kept, secured)
            spark = next((server for server in kept if server.name == "spark"), None)
            dagster = [server for server in kept if server.name.startswith("dagster")]
            wanted = []
            if spark is None:
                wanted.append((spark_port, SPARK_PURPOSE, SPARK_SETTING))
            if dagster_port and not any(server.name == "dagster-webserver" for server in dagster):
                wanted.append((dagster_port, DAGSTER_PURPOSE, DAGSTER_SETTING))
            require_apart([*cluster.ports(), *wanted])
            for port, purpose, setting in wanted:  # before Kafka is started in vain
                require_free(port, purpose, setting)
            try:
                say(f"Starting Kafka ({len(cluster.nodes)} broker{'s' * (len(cluster.nodes) > 1)}) …")
                cluster.start()
                servers = kafka_servers(cluster)
                self.save([*servers, *([spark] if spark else []), *dagster])
                if spark is None:
                    say("Starting Spark Connect …")
                    servers.append(self.start_spark(spark_port))
                else:
                    servers.append(spark)
                self.save([*servers, *dagster])
                if dagster_port:
                    say("Starting Dagster …")
                    dagster = self.start_dagster(dagster_port, dagster)
                servers += dagster
                self.save(servers)
                return servers
            except BaseException:
                end_processes(self.strangers(kept))
                self.save(kept)
                raise

    def cluster(
        self, brokers: int | None, first_port: int, kept: list[Server], secured: bool | None = None
    ) -> KafkaCluster:
        """The cluster of this home. Its data fixes the number of brokers and whether they are secured; asking for
        something else is refused."""
        formatted = self.formatted_brokers()
        count = brokers or formatted or 1
        if formatted and count != formatted:
            raise EosError(
                f"{self.kafka_folder} holds the data of {formatted} broker(s), not {count}.",
                f"Say `eos up --brokers {formatted}`, or `eos down --delete-data` first, or set another EOS_HOME.",
            )
        security = BrokerSecurity(self.kafka_folder / "security")
        if not formatted:  # an `eos up --secured` that failed decides nothing about this one
            security.remove()
        known = security.exists()
        if formatted and secured is not None and secured != known:
            raise EosError(
                f"{self.kafka_folder} holds the data of {'a secured' if known else 'an open'} cluster.",
                f"Say `eos up --{'' if known else 'not-'}secured`, or `eos down --delete-data` first, or set another "
                "EOS_HOME.",
            )
        running = {server.name: server for server in kept if server.name.startswith("kafka")}
        if running:  # keep the ports of what already runs
            name, server = next(iter(running.items()))
            first_port = int(server.address.rpartition(":")[2]) - 2 * (int(name.rpartition("-")[2]) - 1)
        cluster = KafkaCluster(
            self.kafka_folder,
            brokers=count,
            first_port=first_port,
            settings=self.settings,
            secured=known if secured is None else secured,
            env=self.marked(),
            tied=False,
        )
        for node in cluster.nodes:
            if f"kafka-{node.id}" in running:
                node.process = running[f"kafka-{node.id}"].process
        return cluster

    def formatted_brokers(self) -> int:
        """How many brokers the data here belongs to; one of three may have lost its own."""
        folders = [self.kafka_folder / f"broker-{number}" for number in (1, 2, 3)]
        if not any(os.path.exists(folder / "data" / "meta.properties") for folder in folders):
            return 0
        return 3 if any(os.path.exists(folder) for folder in folders[1:]) else 1

    def start_spark(self, port: int) -> Server:
        server = SparkConnectServer(self.spark_folder, port=port, settings=self.settings, env=self.marked(), tied=False)
        server.start()
        assert server.process is not None
        return Server("spark", server.address, self.spark_folder, server.process)

    def start_dagster(self, port: int, kept: list[Server]) -> list[Server]:
        """Webserver and daemon: those that run are kept, the others are started."""
        running = {server.name: server for server in kept}
        if "dagster-webserver" in running:
            port = int(running["dagster-webserver"].address.rpartition(":")[2])
        server = DagsterServer(self.dagster_folder, port=port, env=self.marked_home(), tied=False)
        start = {"dagster-webserver": server.start_webserver, "dagster-daemon": server.start_daemon}
        addresses = {"dagster-webserver": server.address, "dagster-daemon": ""}
        return [
            running.get(name) or Server(name, addresses[name], self.dagster_folder, begin())
            for name, begin in start.items()
        ]

    def marked_home(self) -> dict[str, str]:
        """Runs of Dagster must find this home's servers, wherever they are started."""
        paths = {name: str(Path(os.environ[name]).absolute()) for name in PATHS if os.environ.get(name)}
        own = {"EOS_HOME": self.home, "EOS_JARS_DIR": self.settings.jars_dir, "EOS_LAKE": self.settings.lake}
        code = {"EOS_PY_FILES": ",".join(map(str, self.settings.py_files))}
        return {**self.marked(), **paths, **code, **{name: str(value) for name, value in own.items()}}

    def down(self, *, delete_data: bool = False) -> int:
        """Ends every server of this home, recorded or not, and nothing else. Returns how many it ended."""
        if not os.path.exists(self.home):
            return 0
        with self.lock():
            ours = self.marked_processes()
            end_processes(ours)
            end_processes(self.marked_processes(), patience=1)  # born while we were ending their parents
            self.record.unlink(missing_ok=True)
            if delete_data:
                with clear_disk_errors(self.home):
                    for folder in (self.kafka_folder, self.spark_folder, self.dagster_folder, self.home / "lake"):
                        shutil.rmtree(folder, ignore_errors=True)
        return len(ours)

    def marked(self) -> dict[str, str]:
        return {MARKER: str(self.home.resolve())}

    def marked_processes(self) -> list[psutil.Process]:
        """Every process of ours that carries this home's marker, whatever its name; never ourselves."""
        home = self.marked()[MARKER]
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and process.environ().get(MARKER) == home:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def strangers(self, kept: list[Server]) -> list[psutil.Process]:
        """The processes that carry our marker and belong to none of the servers to be kept."""
        family = {server.process.pid for server in kept}
        for server in kept:
            process = server.process.handle()
            family |= {child.pid for child in process.children(recursive=True)} if process else set()
        return [process for process in self.marked_processes() if process.pid not in family]

    def save(self, servers: list[Server]) -> None:
        write_whole(self.record, json.dumps([asdict(server) for server in servers], indent=2, default=str))


def kafka_servers(cluster: KafkaCluster) -> list[Server]:
    return [Server(f"kafka-{node.id}", node.address, node.data, node.process) for node in cluster.nodes if node.process]
