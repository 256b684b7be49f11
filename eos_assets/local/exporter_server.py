"""The exporter of metrics of `eos up`, on loopback."""

import sys
from collections.abc import Mapping
from pathlib import Path

from eos_assets.local.ports import require_free
from eos_assets.local.probe import serves
from eos_assets.local.process import await_ready, spawn, stop_servers
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.server_process import ServerProcess

START_SECONDS = 60
EXPORTER_PURPOSE, EXPORTER_SETTING = "the exporter of metrics", "--exporter-port or EOS_EXPORTER_PORT"


class ExporterServer:
    """`eos exporter` as a child process."""

    def __init__(self, folder: Path, *, port: int, env: Mapping[str, str] | None = None, tied: bool = True) -> None:
        self.folder = folder
        self.port = port
        self.env = dict(env or {})
        self.tied = tied

    @property
    def address(self) -> str:
        """Where Prometheus finds the metrics."""
        return f"http://{LOOPBACK}:{self.port}/metrics"

    def start(self) -> ServerProcess:
        require_free(self.port, EXPORTER_PURPOSE, EXPORTER_SETTING)
        command = [sys.executable, "-m", "eos_assets.cli", "exporter", "--host", LOOPBACK, "--port", str(self.port)]
        log = self.folder / "exporter.log"
        server = spawn("Exporter", command, log=log, cwd=self.folder, env=self.env, tied=self.tied)
        try:
            await_ready(server, lambda: serves(self.address), START_SECONDS, f"See {log}.")
        except BaseException:
            stop_servers([server], seconds=0)
            raise
        return server
