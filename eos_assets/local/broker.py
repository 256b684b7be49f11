"""An Apache Kafka cluster in KRaft mode on loopback: a folder and ports in, running brokers out."""

import base64
import re
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
from eos_assets.local.broker_security import BrokerSecurity
from eos_assets.platform.folders import make_folder, write_whole
from eos_assets.platform.jars import jars
from eos_assets.platform.java import find_java
from eos_assets.platform.ports import LOOPBACK, ReservedPort, WantedPort, require_free
from eos_assets.platform.process import ServerProcess, await_ready, stop_all
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
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def ports(self) -> list[WantedPort]:
        return [
            (self.port, f"Kafka broker {self.id}", PORT_SETTING),
            (self.controller_port, f"the controller of Kafka broker {self.id}", PORT_SETTING),
        ]


class KafkaCluster:
    """One or three brokers over one folder. The data outlives stop, kill and restart.

    Three nodes keep three replicas and acknowledge with two, for the transaction and offsets topics too, so that
    any one node may be killed and nothing acknowledged is lost.
    """

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
        if brokers not in (1, 3):
            raise EosError(f"{brokers} brokers are not supported.", "Use 1 broker, or 3 to survive the loss of one.")
        if first_port is not None and first_port + 2 * brokers > 65536:
            raise EosError(
                f"{brokers} broker(s) from port {first_port} on need ports above 65535.",
                f"Choose a first port of at most {65536 - 2 * brokers} with --kafka-port or EOS_KAFKA_PORT.",
            )
        if "," in str(folder):
            raise EosError(
                f"Kafka cannot keep its data in {folder}: it takes a comma for the end of a folder's name.",
                "Set EOS_HOME to a folder without a comma in its path.",
            )
        self.folder = folder
        self.fixed = first_port is not None
        self.settings = settings or Settings.load()
        self.overrides = dict(overrides or {})
        self.secured = BrokerSecurity(folder / "security") if secured else None
        self.env = dict(env or {})
        self.tied = tied
        self._reserved = [] if self.fixed else [ReservedPort() for _ in range(2 * brokers)]
        ports = (
            [r.number for r in self._reserved]
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
        """To all brokers; of a secured cluster, as its administrator."""
        security = self.secured.client() if self.secured else Security()
        return Connection(self.bootstrap_servers, security=security)

    def start(self) -> None:
        """Formats what is not formatted, starts what does not run, returns when every broker serves."""
        down = [node for node in self.nodes if not self.runs(node)]
        if self.fixed:
            for wanted in (port for node in down for port in node.ports()):
                require_free(*wanted)
        cluster_id = self.cluster_id()
        if self.secured:
            self.secured.make()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self._format(node, cluster_id), down))
        try:
            for node in down:
                self._launch(node)
            for node in down:
                self.await_serving(node)
        except BaseException:
            stop_all([node.process for node in down if node.process], patience=0)
            raise

    def stop(self) -> None:
        stop_all([node.process for node in self.nodes if node.process])

    def kill(self, broker_id: int) -> None:
        """SIGKILL of one broker, as a crash would."""
        process = self.nodes[broker_id - 1].process
        assert process is not None
        process.kill()

    def restart(self, broker_id: int) -> None:
        """Starts one ended broker again, on the same ports, with the same data."""
        node = self.nodes[broker_id - 1]
        assert not self.runs(node)
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

    @staticmethod
    def runs(node: Node) -> bool:
        return node.process is not None and node.process.alive()

    def _java(self, heap: str, *args: str) -> list[str]:
        classpath = ":".join(str(jar) for jar in jars("broker", self.settings))
        return [str(find_java().executable), f"-Xmx{heap}", "-cp", classpath, *args]

    def _format(self, node: Node, cluster_id: str) -> None:
        """Writes the configuration, and formats the data folder once: a formatted one is left alone."""
        make_folder(node.folder)
        if self.secured:
            node.folder.chmod(0o700)  # its configuration holds passwords
        write_whole(node.properties, self.server_properties(node))
        write_whole(node.folder / "log4j2.properties", LOG4J)
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
        """One id for all nodes, made once per folder."""
        path = self.folder / "cluster.id"
        if not path.exists():
            make_folder(self.folder)
            write_whole(path, base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))
        return path.read_text()

    def _launch(self, node: Node) -> None:
        heap = "1g" if len(self.nodes) == 1 else "512m"
        config = f"-Dlog4j2.configurationFile={node.folder / 'log4j2.properties'}"
        command = self._java(heap, config, "kafka.Kafka", str(node.properties))
        node.process = ServerProcess.spawn(
            f"Kafka broker {node.id}", command, log=node.log, cwd=node.folder, env=self.env, tied=self.tied
        )

    def await_serving(self, node: Node) -> None:
        assert node.process is not None
        await_ready(
            node.process,
            lambda: serves(replace(self.connection, bootstrap_servers=node.address), node.id),
            START_SECONDS,
            f"Look into {node.log}; if its data is beyond repair, remove {node.data} and start again.",
        )

    def server_properties(self, node: Node) -> str:
        brokers = len(self.nodes)
        replicas, in_sync = (3, 2) if brokers == 3 else (1, 1)
        properties: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": node.id,
            "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{LOOPBACK}:{node.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{node.address}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{n.id}@{LOOPBACK}:{n.controller_port}" for n in self.nodes),
            "log.dirs": node.data,
            "auto.create.topics.enable": "false",
            "unclean.leader.election.enable": "false",
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            # A killed broker may register again only when its old session has expired: 9 s by default.
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 500,
            **(self.secured.properties(node.address, f"{LOOPBACK}:{node.controller_port}") if self.secured else {}),
            **self.overrides,
        }
        return "".join(f"{name}={escaped(str(value))}\n" for name, value in properties.items())


def escaped(value: str) -> str:
    """A value as Java reads it from a properties file: no backslash stands for itself, and all else is ASCII."""
    return re.sub(r"[^\x00-\x7f]", utf_16_escape, value.replace("\\", "\\\\"))


def utf_16_escape(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def serves(connection: Connection, broker_id: int) -> bool:
    """True once this broker answers a client and counts itself among the live brokers."""
    quiet = connection.config(socket_connection_setup_timeout_ms=1000)
    try:
        return broker_id in AdminClient(quiet).list_topics(timeout=1).brokers
    except KafkaException:
        return False
