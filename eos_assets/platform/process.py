"""A server as a child process: started with its log, recognised by pid and start time, ended for certain."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from eos_assets.errors import EosError
from eos_assets.platform.folders import clear_disk_errors, make_folder

#: Makes the server die with the process that started it (Linux): `prctl(PR_SET_PDEATHSIG, SIGKILL)`, then exec.
TIE = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit('the parent is gone'); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)

#: The kernel ties a child to the thread that started it, so all are started by one that lives as long as we do.
SPAWNER = ThreadPoolExecutor(1, thread_name_prefix="spawner")


@dataclass(frozen=True)
class ServerProcess:
    """One process that we started. Its start time tells it from a later one with the same pid."""

    name: str
    pid: int
    started: float
    log: Path
    #: Where its own lines begin: the log of earlier starts is kept.
    log_start: int = 0

    @staticmethod
    def spawn(
        name: str, command: list[str], *, log: Path, cwd: Path, env: Mapping[str, str] | None = None, tied: bool = True
    ) -> "ServerProcess":
        """Starts a server in a session of its own, so that a Ctrl-C in the terminal reaches only us.

        A tied server dies with us, however we die; an untied one lives on (`eos up`).
        """
        make_folder(cwd)
        make_folder(log.parent)
        if tied and sys.platform == "linux":
            command = [sys.executable, "-S", "-E", "-c", TIE, str(os.getpid()), *command]
        with clear_disk_errors(log), log.open("ab") as out:
            log_start = out.tell()
            child = SPAWNER.submit(
                subprocess.Popen,
                command,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ).result()
        return ServerProcess(name, child.pid, start_mark(child.pid), log, log_start)

    def handle(self) -> psutil.Process | None:
        """The living process, or None: never another process that got the same pid."""
        try:
            process = psutil.Process(self.pid)
            if start_mark(self.pid) != self.started:
                return None
            if process.status() == psutil.STATUS_ZOMBIE:
                process.wait(0)
                return None
            return process
        except psutil.Error:
            return None

    def alive(self) -> bool:
        return self.handle() is not None

    def log_tail(self, lines: int = 15) -> str:
        """The last lines that were written since this start."""
        try:
            text = self.log.read_bytes()[self.log_start :].decode(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"

    def stop(self, patience: float = 20) -> None:
        stop_all([self], patience)

    def kill(self) -> None:
        """SIGKILL: what a crash looks like. Returns when the process is gone."""
        process = self.handle()
        if process:
            with suppress(psutil.NoSuchProcess):  # it ended by itself meanwhile
                process.kill()
            process.wait(10)

    def pause(self) -> None:
        process = self.handle()
        if process:
            process.suspend()

    def resume(self) -> None:
        process = self.handle()
        if process:
            process.resume()


def start_mark(pid: int) -> float:
    """When a process started, in clock ticks since boot where the system tells: those do not move with the clock."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return float(fields[19])
    except (OSError, IndexError):
        return psutil.Process(pid).create_time()


def stop_all(servers: Iterable[ServerProcess], patience: float = 20) -> None:
    """Asks all to end, waits, and kills what is left."""
    end_processes([process for process in (server.handle() for server in servers) if process], patience)


def end_processes(processes: Iterable[psutil.Process], patience: float = 20) -> None:
    waiting = list(processes)
    for process in waiting:
        try:
            process.terminate()
            process.resume()
        except psutil.NoSuchProcess:
            continue
    _, stubborn = psutil.wait_procs(waiting, patience)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, 10)


def await_ready(server: ServerProcess, ready: Callable[[], bool], patience: float, remedy: str) -> None:
    """Returns once the server really serves; if it dies or does not come up, says so with the end of its log."""
    deadline = time.monotonic() + patience
    while True:
        dead = not server.alive()
        if ready() and not dead:
            return
        if dead or time.monotonic() > deadline:
            what = "ended while starting" if dead else f"does not serve after {patience:.0f} s"
            raise EosError(
                f"{server.name} {what}. The last lines of {server.log}:\n{server.log_tail()}", hint(server) or remedy
            )
        time.sleep(0.1)


def hint(server: ServerProcess) -> str | None:
    """A better remedy than the general one, where the log gives the cause away."""
    tail = server.log_tail(200)
    if "No space left on device" in tail:
        return "The disk is full: free some space, or set EOS_HOME to a folder on another disk."
    if "Address already in use" in tail:
        return "Another program took its port: end that program, or choose another port."
    if "OutOfMemoryError" in tail or "Could not reserve enough space" in tail:
        return "Not enough memory: end other programs and start again."
    return None
