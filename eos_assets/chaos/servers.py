"""The servers and processes of one soak: Kafka, Spark Connect and runners, with a folder and ports of their own."""

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from eos_assets.chaos.runner import Instructions
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster
from eos_assets.local.ports import ReservedPort
from eos_assets.local.process import spawn, stop_servers
from eos_assets.local.spark_server import SparkConnectServer
from eos_assets.platform.folders import make_folder, write_atomically
from eos_assets.platform.running import RunningServers, Server
from eos_assets.platform.server_process import ServerProcess
from eos_assets.platform.settings import Settings

#: Brokers abort transactions that outlived their timeout within a second instead of ten.
OVERRIDES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
#: How long a runner may take to end its last run.
END_SECONDS = 120


class SoakServers:
    """Started together and stopped together. They end with this process, however it ends."""

    def __init__(self, folder: Path, settings: Settings, pipeline: str, brokers: int) -> None:
        self.folder = folder
        self.pipeline = pipeline
        self.settings = settings.model_copy(update={"home": folder})
        self.trace = make_folder(folder / "trace")
        self.kafka = KafkaCluster(folder / "kafka", brokers=brokers, settings=self.settings, overrides=OVERRIDES)
        self.port = ReservedPort()
        self.spark = SparkConnectServer(
            folder / "spark", port=self.port.number, settings=self.settings, env=self.environment
        )
        self.runners: list[ServerProcess] = []
        #: Those that were killed, or asked to end.
        self.dismissed: set[ServerProcess] = set()
        self._open = ExitStack()

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "EOS_HOME": str(self.folder),
            "EOS_JARS_DIR": str(self.settings.jars_dir),
            "EOS_MODULES": ",".join(self.settings.modules),
        }

    @property
    def connection(self) -> Connection:
        return self.kafka.connection

    def __enter__(self) -> Self:
        with ExitStack() as started:
            started.callback(self.port.release)
            started.enter_context(self.kafka)
            started.callback(self.spark.stop)
            process = self.spark.start()
            started.callback(self.end)
            # With this record a session knows that the server runs this very code, which need not be sent there.
            server = Server("spark", self.spark.address, self.spark.folder, process)
            write_atomically(RunningServers(self.folder).record, json.dumps([asdict(server)], default=str))
            self._open = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def launch(self) -> ServerProcess:
        """Start a process that runs the pipeline."""
        instructions = Instructions(
            self.pipeline, self.connection.bootstrap_servers, self.spark.address, str(self.trace)
        )
        number = len(self.runners) + 1
        command = [sys.executable, "-m", "eos_assets.chaos.runner", instructions.to_json()]
        runner = spawn(
            f"run {number}", command, log=self.folder / "runs" / f"{number}.log", cwd=self.folder, env=self.environment
        )
        self.runners.append(runner)
        return runner

    def living(self) -> list[ServerProcess]:
        """The runners that have not ended, the newest last."""
        return [runner for runner in self.runners if runner.is_alive()]

    def kill_runners(self) -> None:
        """Kill all runners, as a crash would."""
        for runner in self.living():
            self.dismissed.add(runner)
            runner.kill()

    def keep_one_runner(self) -> None:
        """Ask all runners but the newest one to end after their run. Start one if none lives."""
        living = self.living()
        for runner in living[:-1]:
            self.dismissed.add(runner)
            runner.terminate()
        if not living:
            self.launch()

    def end_runners(self) -> None:
        """Let the runners end their last run."""
        self.dismissed |= {*self.living()}
        stop_servers(self.living(), END_SECONDS)

    def failed_runners(self) -> list[ServerProcess]:
        """The runners that ended without being asked to."""
        return [runner for runner in self.runners if runner not in self.dismissed and not runner.is_alive()]

    def end(self) -> None:
        """Stop all runners at once, and let stopped workers end."""
        stop_servers(self.living(), 0)
        for worker in self.workers():
            with suppress(psutil.Error):
                worker.resume()

    def workers(self) -> list[psutil.Process]:
        """The Python processes of Spark."""
        spark = self.spark.process.handle() if self.spark.process else None
        try:
            return spark.children(recursive=True) if spark else []
        except psutil.Error:
            return []

    def processes(self) -> dict[str, list[psutil.Process]]:
        """All living processes by their role."""
        roles: dict[str, list[ServerProcess | None]] = {
            f"broker {node.id}": [node.process] for node in self.kafka.nodes
        }
        roles |= {"Spark Connect": [self.spark.process], "runs": [*self.runners]}
        living = {
            role: [handle for server in servers if server and (handle := server.handle())]
            for role, servers in roles.items()
        }
        return {**living, "Python workers": self.workers()}
