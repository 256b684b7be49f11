"""The Dagster webserver and daemon on loopback: a folder for their instance in, two processes out."""

import shutil
import sys
import urllib.error
from collections.abc import Mapping
from pathlib import Path

from eos_assets.platform.folders import make_folder
from eos_assets.platform.ports import LOOPBACK, require_free
from eos_assets.platform.process import ServerProcess, await_ready
from eos_assets.platform.proxy import direct

START_SECONDS = 120
DAGSTER_PURPOSE, DAGSTER_SETTING = "the Dagster webserver", "--dagster-port or EOS_DAGSTER_PORT"
INSTANCE = Path(__file__).parent / "dagster.yaml"
LOCATION = ["-m", "eos_assets.definitions"]


class DagsterServer:
    """Webserver and daemon of one instance, serving the project's code location."""

    def __init__(self, folder: Path, *, port: int, env: Mapping[str, str] | None = None, tied: bool = True) -> None:
        self.folder = folder
        self.port = port
        self.env = {**(env or {}), "DAGSTER_HOME": str(folder), "PYTHONWARNINGS": "ignore"}
        self.tied = tied
        self.webserver: ServerProcess | None = None
        self.daemon: ServerProcess | None = None

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def start_webserver(self) -> ServerProcess:
        require_free(self.port, DAGSTER_PURPOSE, DAGSTER_SETTING)
        self.prepare()
        command = ["dagster_webserver", "--host", LOOPBACK, "--port", str(self.port), *LOCATION]
        self.webserver = self.spawn("Dagster webserver", command, "webserver.log")
        self.await_ready(self.webserver)
        return self.webserver

    def start_daemon(self) -> ServerProcess:
        self.prepare()
        self.daemon = self.spawn("Dagster daemon", ["eos_assets.local.daemon", *LOCATION], "daemon.log")
        return self.daemon

    def prepare(self) -> None:
        make_folder(self.folder)
        if not (self.folder / "dagster.yaml").exists():
            shutil.copyfile(INSTANCE, self.folder / "dagster.yaml")

    def spawn(self, name: str, module: list[str], log: str) -> ServerProcess:
        command = [sys.executable, "-m", *module]
        return ServerProcess.spawn(name, command, log=self.folder / log, cwd=self.folder, env=self.env, tied=self.tied)

    def await_ready(self, process: ServerProcess) -> None:
        try:
            await_ready(process, self.serves, START_SECONDS, f"Look into {process.log}.")
        except BaseException:
            process.stop(patience=0)
            raise

    def serves(self) -> bool:
        try:
            with direct.open(f"{self.address}/server_info", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def stop(self) -> None:
        for process in (self.daemon, self.webserver):
            if process:
                process.stop()
