"""A peer that runs as a process of its own, for all rounds, and takes its runs as lines on its standard input."""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Timer

import psutil

from benchmarks.trial import Trial
from benchmarks.usage import tree_of
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.platform.folders import make_folder

#: From here the peers in Python are imported.
ROOT = Path(__file__).parents[2]
READY_SECONDS = 120
RUN_SECONDS = 900


class PeerProcess:
    """Implements `Contender` with the line protocol of `java/Peer.java` and `protocol.py`."""

    def __init__(
        self, name: str, command: Callable[[], list[str]], arguments: Mapping[str, str], log_folder: Path
    ) -> None:
        self.name = name
        self._command = command
        self._arguments = arguments
        self._log = log_folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self, connection: Connection) -> None:
        arguments = {"servers": connection.bootstrap_servers, **self._arguments}
        command = [*self._command(), *(f"{name}={value}" for name, value in arguments.items())]
        make_folder(self._log.parent)
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C in the terminal does not reach it
            )
        self._await("ready", READY_SECONDS)

    def topics(self, trial: Trial) -> list[Topic]:
        return [trial.sink]

    def run(self, trial: Trial) -> None:
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(f"run {trial.source.name} {trial.sink.name} {trial.workload.name} {trial.id}\n")
        process.stdin.flush()
        self._await("done", RUN_SECONDS)

    def settle(self) -> None:
        self._await("ready", READY_SECONDS)

    def processes(self) -> Iterable[psutil.Process]:
        return tree_of(psutil.Process(self._running().pid))

    def close(self) -> None:
        """End the process, which does so by itself when its input ends."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _running(self) -> "subprocess.Popen[str]":
        assert self._process is not None
        return self._process

    def _await(self, wanted: str, seconds: float) -> None:
        """Read lines until the wanted one. A process that does not answer in time is ended."""
        process = self._running()
        assert process.stdout is not None
        timer = Timer(seconds, process.kill)
        timer.start()
        try:
            for line in process.stdout:
                if line.strip() == wanted:
                    return
                if line.startswith("failed "):
                    raise self._failure(line.strip())
        finally:
            timer.cancel()
        raise self._failure(f"ended, or did not answer within {seconds:g} s")

    def _failure(self, reason: str) -> EosError:
        return EosError(f"The peer {self.name} {reason}.", f"See {self._log}.")
