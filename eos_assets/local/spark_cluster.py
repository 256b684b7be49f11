"""A Spark standalone cluster on loopback: one master and some workers, each a process of its own."""

import json
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eos_assets.local.ports import ReservedPort
from eos_assets.local.process import await_ready, spawn, stop_servers
from eos_assets.platform.folders import make_folder
from eos_assets.platform.jars import spark_home
from eos_assets.platform.java import find_java
from eos_assets.platform.loopback import LOOPBACK, direct
from eos_assets.platform.server_process import ServerProcess

START_SECONDS = 60


class SparkCluster:
    """One master and workers, run by the Spark inside PySpark. This project is not installed there: the executors get
    what they need with each session."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        env: Mapping[str, str] | None = None,
        tied: bool = True,
    ) -> None:
        self.folder = folder
        self.cores = cores
        self.memory = memory
        self.tied = tied
        self._reserved = [ReservedPort() for _ in range(2 + 2 * workers)]
        self._ports = [port.number for port in self._reserved]
        self._workers = workers
        self.processes: list[ServerProcess] = []
        self.env = {
            **(env or {}),
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "PYTHONPATH": "",
        }

    @property
    def address(self) -> str:
        return f"spark://{LOOPBACK}:{self._ports[0]}"

    def start(self) -> None:
        """Return when every worker is registered."""
        try:
            self._start_master()
            for number in range(self._workers):
                self._start_worker(number)
            for process in self.processes:
                await_ready(process, self.serves, START_SECONDS, f"See {process.log}.")
        except BaseException:
            self.close()
            raise

    def _start_master(self) -> None:
        port, ui_port = self._ports[:2]
        arguments = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(ui_port)]
        self._spawn("Spark master", "master.Master", arguments, "master")

    def _start_worker(self, number: int) -> None:
        port, ui_port = self._ports[2 + 2 * number : 4 + 2 * number]
        arguments = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(ui_port)]
        arguments += ["--work-dir", str(self.folder / f"work-{number}")]
        arguments += ["--cores", str(self.cores), "--memory", self.memory, self.address]
        self._spawn(f"Spark worker {number}", "worker.Worker", arguments, f"worker-{number}")

    def _spawn(self, name: str, kind: str, arguments: list[str], folder: str) -> None:
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        log, cwd = self.folder / f"{folder}.log", make_folder(self.folder / folder)
        self.processes.append(spawn(name, command, log=log, cwd=cwd, env=self.env, tied=self.tied))

    def state(self) -> dict[str, Any]:
        """The master's report on its workers, applications and executors."""
        with direct.open(f"http://{LOOPBACK}:{self._ports[1]}/json/", timeout=2) as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    def serves(self) -> bool:
        try:
            alive = [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]
        except (urllib.error.URLError, TimeoutError, ConnectionError, json.JSONDecodeError):
            return False
        return len(alive) == self._workers

    def close(self) -> None:
        stop_servers(self.processes)
        for port in self._reserved:
            port.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
