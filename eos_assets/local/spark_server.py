"""A long-lived Spark Connect server on loopback: a port in, a warm Spark that outlives each run out."""

import sys
from collections.abc import Mapping
from pathlib import Path

from eos_assets.platform.jars import spark_home
from eos_assets.platform.java import find_java
from eos_assets.platform.ports import LOOPBACK, require_free
from eos_assets.platform.process import ServerProcess, await_ready
from eos_assets.platform.settings import Settings
from eos_assets.platform.spark_session import cluster_config

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
        master: str = "local[*,4]",
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

    def start(self) -> None:
        require_free(self.port, SPARK_PURPOSE, SPARK_SETTING)
        command = connect_command(self.settings, self.master, LOOPBACK, self.port, self.folder)
        env = {**self.env, **connect_environment(self.settings)}
        self.process = ServerProcess.spawn(
            "Spark Connect", command, log=self.log, cwd=self.folder, env=env, tied=self.tied
        )
        try:
            await_ready(self.process, self.serves, START_SECONDS, f"Look into {self.log}.")
        except BaseException:
            self.process.stop(patience=0)
            raise

    def serves(self) -> bool:
        """True once the server speaks gRPC, which it does only with its Spark session up."""
        return serves(self.port)

    def stop(self) -> None:
        if self.process:
            self.process.stop()


def connect_command(
    settings: Settings, master: str, host: str, port: int, folder: Path, more: Mapping[str, str] | None = None
) -> list[str]:
    """What starts a server: the configuration holds no secret, as anybody may see command lines."""
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
    import grpc

    options = [("grpc.enable_http_proxy", 0)]  # a proxy does not lead to this machine
    with grpc.insecure_channel(f"{LOOPBACK}:{port}", options) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=1)
        except grpc.FutureTimeoutError:
            return False
    return True
