"""An Apache Kafka cluster of one or three brokers on loopback, in KRaft mode."""

import base64
import subprocess
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from eos_assets.errors import EosError
from eos_assets.kafka.auth import Security
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker_properties import cluster_properties, node_properties, properties_text
from eos_assets.local.broker_security import BrokerSecurity
from eos_assets.local.ports import ReservedPort, WantedPort, require_free
from eos_assets.local.process import await_ready, spawn, stop_servers
from eos_assets.platform.folders import make_folder, write_atomically
from eos_assets.platform.jars import ensure_jars
from eos_assets.platform.java import find_java
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.server_process import ServerProcess
from eos_assets.platform.settings import Settings

START_SECONDS = 60
PORT_SETTING = "--kafka-port or EOS_KAFKA_PORT"
LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n%throwable
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


@dataclass
class Node:
    """One broker, which is also a controller."""

    id: int
    port: int
    controller_port: int
    folder: Path
    process: ServerProcess | None = None

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def controller(self) -> str:
        return f"{LOOPBACK}:{self.controller_port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log4j(self) -> Path:
        return self.folder / "log4j2.properties"

    def ports(self) -> list[WantedPort]:
        return [
            (self.port, f"Kafka broker {self.id}", PORT_SETTING),
            (self.controller_port, f"the controller of Kafka broker {self.id}", PORT_SETTING),
        ]

    def is_running(self) -> bool:
        return self.process is not None and self.process.is_alive()


class KafkaCluster:
    """One or three brokers whose data is below one folder, and outlives stop, kill and restart."""

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 1,
        first_port: int | None = None,
        settings: Settings | None = None,
        overrides: Mapping[str, str] | None = None,
        secured: bool = False,
        env: Mapping[str, str] | None = None,
        tied: bool = True,
    ) -> None:
        check_arguments(folder, brokers, first_port)
        self.folder = folder
        self.fixed = first_port is not None
        self.settings = settings or Settings.load()
        self.overrides = dict(overrides or {})
        self.secured = BrokerSecurity(folder / "security") if secured else None
        self.env = dict(env or {})
        self.tied = tied
        self._reserved = [] if self.fixed else [ReservedPort() for _ in range(2 * brokers)]
        ports = (
            [port.number for port in self._reserved]
            if first_port is None
            else list(range(first_port, first_port + 2 * brokers))
        )
        self.nodes = [Node(n + 1, ports[2 * n], ports[2 * n + 1], folder / f"broker-{n + 1}") for n in range(brokers)]

    def ports(self) -> list[WantedPort]:
        return [port for node in self.nodes for port in node.ports()]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.nodes)

    @property
    def connection(self) -> Connection:
        """A connection to all brokers; to a secured cluster as its administrator."""
        security = self.secured.client() if self.secured else Security()
        return Connection(self.bootstrap_servers, security=security)

    def start(self) -> None:
        """Start the brokers that are not running, and return when all of them serve."""
        down = [node for node in self.nodes if not node.is_running()]
        if self.fixed:
            for wanted in (port for node in down for port in node.ports()):
                require_free(*wanted)
        cluster_id = self.cluster_id()
        if self.secured:
            self.secured.create()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self._format(node, cluster_id), down))
        try:
            for node in down:
                self._launch(node)
            for node in down:
                self.await_serving(node)
        except BaseException:
            stop_servers([node.process for node in down if node.process], seconds=0)
            raise

    def stop(self) -> None:
        stop_servers([node.process for node in self.nodes if node.process])

    def kill(self, broker_id: int) -> None:
        """Send SIGKILL to one broker, as a crash would."""
        process = self.nodes[broker_id - 1].process
        assert process is not None
        process.kill()

    def shut_down(self, broker_id: int) -> None:
        """Stop one broker in an orderly way: it first hands over what it leads."""
        process = self.nodes[broker_id - 1].process
        assert process is not None
        stop_servers([process])

    def restart(self, broker_id: int) -> None:
        """Start one broker that has ended, on the same ports, with the same data."""
        node = self.nodes[broker_id - 1]
        assert not node.is_running()
        self._launch(node)
        self.await_serving(node)

    def close(self) -> None:
        self.stop()
        for port in self._reserved:
            port.release()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _java(self, heap: str, *args: str) -> list[str]:
        classpath = ":".join(str(jar) for jar in ensure_jars("broker", self.settings))
        return [str(find_java().executable), f"-Xmx{heap}", "-cp", classpath, *args]

    def _format(self, node: Node, cluster_id: str) -> None:
        """Write the configuration, and format the data folder unless it is formatted already."""
        make_folder(node.folder)
        if self.secured:
            node.folder.chmod(0o700)  # its configuration holds passwords
        write_atomically(node.properties, properties_text(self.server_properties(node)))
        write_atomically(node.log4j, LOG4J)
        if (node.data / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--ignore-formatted"]
        tool += self.secured.format_arguments() if self.secured else []
        run = subprocess.run(
            self._java("256m", *tool, "-c", str(node.properties)), capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            full = "No space left on device" in run.stderr
            raise EosError(
                f"Kafka's storage in {node.data} could not be formatted: {run.stderr.strip()[-800:]}",
                "Free some space on that disk." if full else f"Remove {node.data} and start again.",
            )

    def cluster_id(self) -> str:
        """The id of all nodes, generated once per folder."""
        path = self.folder / "cluster.id"
        if not path.exists():
            make_folder(self.folder)
            write_atomically(path, base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))
        return path.read_text()

    def _launch(self, node: Node) -> None:
        heap = "1g" if len(self.nodes) == 1 else "512m"
        config = f"-Dlog4j2.configurationFile={node.log4j}"
        command = self._java(heap, config, "kafka.Kafka", str(node.properties))
        node.process = spawn(
            f"Kafka broker {node.id}", command, log=node.log, cwd=node.folder, env=self.env, tied=self.tied
        )

    def await_serving(self, node: Node) -> None:
        assert node.process is not None
        await_ready(
            node.process,
            lambda: serves(replace(self.connection, bootstrap_servers=node.address), node.id),
            START_SECONDS,
            f"See {node.log}. If its data cannot be repaired, remove {node.data} and start again.",
        )

    def server_properties(self, node: Node) -> dict[str, object]:
        voters = ",".join(f"{n.id}@{n.controller}" for n in self.nodes)
        return {
            **cluster_properties(len(self.nodes)),
            **node_properties(node.id, node.address, node.controller, voters, node.data),
            **(self.secured.properties(node.address, node.controller) if self.secured else {}),
            **self.overrides,
        }


def check_arguments(folder: Path, brokers: int, first_port: int | None) -> None:
    if brokers not in (1, 3):
        raise EosError(f"{brokers} brokers are not supported.", "Use 1 broker, or 3 to survive the loss of one.")
    if first_port is not None and first_port + 2 * brokers > 65536:
        raise EosError(
            f"{brokers} broker(s) from port {first_port} on need ports above 65535.",
            f"Choose a first port of at most {65536 - 2 * brokers} with --kafka-port or EOS_KAFKA_PORT.",
        )
    if "," in str(folder):
        raise EosError(
            f"Kafka cannot keep its data in {folder}: in its configuration a comma separates folders.",
            "Set EOS_HOME to a folder without a comma in its path.",
        )


def serves(connection: Connection, broker_id: int) -> bool:
    """True once this broker answers a client and lists itself among the live brokers."""
    config = connection.config(socket_connection_setup_timeout_ms=1000)
    try:
        return broker_id in AdminClient(config).list_topics(timeout=1).brokers
    except KafkaException:
        return False
