"""A Spark Connect server on loopback, which stays warm between runs."""

import sys
from collections.abc import Mapping
from pathlib import Path

from eos_assets.local.ports import require_free
from eos_assets.local.process import await_ready, spawn, stop_servers
from eos_assets.platform.jars import spark_home
from eos_assets.platform.java import find_java
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.server_process import ServerProcess
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_config import IN_PROCESS, cluster_config

START_SECONDS = 90
SPARK_PURPOSE, SPARK_SETTING = "Spark Connect", "--spark-port or EOS_SPARK_CONNECT_PORT"
MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class SparkConnectServer:
    """One Spark Connect server with the project's jars, run by the Spark inside PySpark."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int,
        settings: Settings | None = None,
        master: str = IN_PROCESS,
        env: Mapping[str, str] | None = None,
        tied: bool = True,
    ) -> None:
        self.folder = folder
        self.port = port
        self.settings = settings or Settings.load()
        self.master = master
        self.env = dict(env or {})
        self.tied = tied
        self.process: ServerProcess | None = None

    @property
    def address(self) -> str:
        return f"sc://{LOOPBACK}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "spark-connect.log"

    def start(self) -> ServerProcess:
        require_free(self.port, SPARK_PURPOSE, SPARK_SETTING)
        command = connect_command(self.settings, self.master, LOOPBACK, self.port, self.folder)
        env = {**self.env, **connect_environment(self.settings)}
        self.process = spawn("Spark Connect", command, log=self.log, cwd=self.folder, env=env, tied=self.tied)
        try:
            await_ready(self.process, self.serves, START_SECONDS, f"See {self.log}.")
        except BaseException:
            stop_servers([self.process], seconds=0)
            raise
        return self.process

    def serves(self) -> bool:
        """True once the server answers gRPC, which it does only when its Spark session is up."""
        return serves(self.port)

    def stop(self) -> None:
        if self.process:
            stop_servers([self.process])


def connect_command(
    settings: Settings, master: str, host: str, port: int, folder: Path, more: Mapping[str, str] | None = None
) -> list[str]:
    """The command that starts a server. It contains no secret, because every user can read command lines."""
    config = {
        **cluster_config(master, settings),
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(folder / "tmp"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **(more or {}),
    }
    command = [str(spark_home() / "bin" / "spark-submit"), "--class", MAIN_CLASS, "--name", "eos"]
    for name, value in config.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "spark-internal"]


def connect_environment(settings: Settings) -> dict[str, str]:
    return {
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": settings.spark_python or sys.executable,
    }


def serves(port: int) -> bool:
    """True if a gRPC server accepts connections on a port of this machine."""
    import grpc

    options = [("grpc.enable_http_proxy", 0)]  # a proxy cannot reach this machine's loopback
    with grpc.insecure_channel(f"{LOOPBACK}:{port}", options) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=1)
        except grpc.FutureTimeoutError:
            return False
    return True
