"""A Spark standalone cluster on loopback: a folder in; one master and some workers, as processes of their own, out."""

import json
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eos_assets.platform.folders import make_folder
from eos_assets.platform.jars import spark_home
from eos_assets.platform.java import find_java
from eos_assets.platform.ports import LOOPBACK, ReservedPort
from eos_assets.platform.process import ServerProcess, await_ready, stop_all
from eos_assets.platform.proxy import direct

START_SECONDS = 60


class SparkCluster:
    """One master and workers, run by the Spark inside PySpark. They know nothing of this project: what the executors
    need comes with each session."""

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
        """Returns when every worker is registered."""
        master_port, ui_port, *worker_ports = self._ports
        try:
            master = ["--host", LOOPBACK, "--port", str(master_port), "--webui-port", str(ui_port)]
            self._spawn("Spark master", "master.Master", master, "master")
            for n in range(self._workers):
                worker = ["--host", LOOPBACK, "--port", str(worker_ports[2 * n])]
                worker += ["--webui-port", str(worker_ports[2 * n + 1]), "--work-dir", str(self.folder / f"work-{n}")]
                worker += ["--cores", str(self.cores), "--memory", self.memory, self.address]
                self._spawn(f"Spark worker {n}", "worker.Worker", worker, f"worker-{n}")
            for process in self.processes:
                await_ready(process, self.serves, START_SECONDS, f"Look into {process.log}.")
        except BaseException:
            self.close()
            raise

    def _spawn(self, name: str, kind: str, arguments: list[str], folder: str) -> None:
        tool = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        home = make_folder(self.folder / folder)
        log = self.folder / f"{folder}.log"
        self.processes.append(
            ServerProcess.spawn(name, [*tool, *arguments], log=log, cwd=home, env=self.env, tied=self.tied)
        )

    def state(self) -> dict[str, Any]:
        """What the master knows: its workers, applications and executors."""
        with direct.open(f"http://{LOOPBACK}:{self._ports[1]}/json/", timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def serves(self) -> bool:
        try:
            alive = [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]
        except (urllib.error.URLError, TimeoutError, ConnectionError, json.JSONDecodeError):
            return False
        return len(alive) == self._workers

    def close(self) -> None:
        stop_all(self.processes)
        for port in self._reserved:
            port.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
