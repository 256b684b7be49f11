"""Starts server processes, waits until they serve, and stops them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from eos_assets.deadlines import poll_until
from eos_assets.errors import EosError
from eos_assets.platform.folders import explain_disk_errors, make_folder
from eos_assets.platform.server_process import ServerProcess, start_time

#: Makes the server die with the process that started it (Linux): `prctl(PR_SET_PDEATHSIG, SIGKILL)`, then exec.
DIE_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit('the parent is gone'); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)

#: The kernel ties a child to the thread that started it, so one thread, which lives as long as the process, starts all.
SPAWNER = ThreadPoolExecutor(1, thread_name_prefix="spawner")


def spawn(
    name: str, command: list[str], *, log: Path, cwd: Path, env: Mapping[str, str] | None = None, tied: bool = True
) -> ServerProcess:
    """Start a server in a session of its own, so that Ctrl-C in the terminal does not reach it.

    A tied server dies with this process, however that dies; an untied one lives on (`eos up`).
    """
    make_folder(cwd)
    make_folder(log.parent)
    if tied and sys.platform == "linux":
        command = [sys.executable, "-S", "-E", "-c", DIE_WITH_PARENT, str(os.getpid()), *command]
    with explain_disk_errors(log), log.open("ab") as out:
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
    return ServerProcess(name, child.pid, start_time(child.pid), log, log_start)


def await_ready(server: ServerProcess, serves: Callable[[], bool], seconds: float, remedy: str) -> None:
    """Return once the server serves. If it dies or does not serve in time, raise with the end of its log."""

    def observe() -> str:
        if not server.is_alive():
            return "ended while starting"
        return "serves" if serves() else ""

    state = poll_until(observe, seconds, pause=0.1)
    if state == "serves":
        return
    raise EosError(
        f"{server.name} {state or f'does not serve after {seconds:.0f} s'}. "
        f"The last lines of {server.log}:\n{server.log_tail()}",
        remedy_of_log(server) or remedy,
    )


def remedy_of_log(server: ServerProcess) -> str | None:
    """A more exact remedy, where the log shows the cause."""
    tail = server.log_tail(200)
    if "No space left on device" in tail:
        return "The disk is full: free some space, or set EOS_HOME to a folder on another disk."
    if "Address already in use" in tail:
        return "Another program took its port: end that program, or choose another port."
    if "OutOfMemoryError" in tail or "Could not reserve enough space" in tail:
        return "Not enough memory: end other programs and start again."
    return None


def stop_servers(servers: Iterable[ServerProcess], seconds: float = 20) -> None:
    end_processes([process for process in (server.handle() for server in servers) if process], seconds)


def end_processes(processes: Iterable[psutil.Process], seconds: float = 20) -> None:
    """Ask all of them to end, wait, and kill those that have not ended."""
    waiting = list(processes)
    for process in waiting:
        try:
            process.terminate()
            process.resume()  # a paused process does not handle the signal
        except psutil.NoSuchProcess:
            continue
    _, remaining = psutil.wait_procs(waiting, seconds)
    for process in remaining:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(remaining, 10)
