"""The Dagster webserver and daemon on loopback."""

import shutil
import sys
import urllib.error
from collections.abc import Mapping
from pathlib import Path

from eos_assets.local.ports import require_free
from eos_assets.local.process import await_ready, spawn, stop_servers
from eos_assets.platform.folders import make_folder
from eos_assets.platform.loopback import LOOPBACK, direct
from eos_assets.platform.server_process import ServerProcess

START_SECONDS = 120
DAGSTER_PURPOSE, DAGSTER_SETTING = "the Dagster webserver", "--dagster-port or EOS_DAGSTER_PORT"
INSTANCE = Path(__file__).parent / "dagster.yaml"
LOCATION = ["-m", "eos_assets.definitions"]


class DagsterServer:
    """Webserver and daemon of one Dagster instance, which serve the project's code location."""

    def __init__(self, folder: Path, *, port: int, env: Mapping[str, str] | None = None, tied: bool = True) -> None:
        self.folder = folder
        self.port = port
        self.env = {**(env or {}), "DAGSTER_HOME": str(folder), "PYTHONWARNINGS": "ignore"}
        self.tied = tied

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def start_webserver(self) -> ServerProcess:
        require_free(self.port, DAGSTER_PURPOSE, DAGSTER_SETTING)
        command = ["dagster_webserver", "--host", LOOPBACK, "--port", str(self.port), *LOCATION]
        webserver = self._spawn("Dagster webserver", command, "webserver.log")
        try:
            await_ready(webserver, self.serves, START_SECONDS, f"See {webserver.log}.")
        except BaseException:
            stop_servers([webserver], seconds=0)
            raise
        return webserver

    def start_daemon(self) -> ServerProcess:
        return self._spawn("Dagster daemon", ["eos_assets.local.daemon", *LOCATION], "daemon.log")

    def _spawn(self, name: str, module: list[str], log: str) -> ServerProcess:
        make_folder(self.folder)
        if not (self.folder / "dagster.yaml").exists():
            shutil.copyfile(INSTANCE, self.folder / "dagster.yaml")
        command = [sys.executable, "-m", *module]
        return spawn(name, command, log=self.folder / log, cwd=self.folder, env=self.env, tied=self.tied)

    def serves(self) -> bool:
        try:
            with direct.open(f"{self.address}/server_info", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False
