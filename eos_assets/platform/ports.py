"""Ports on loopback: free ones that stay ours, and who holds a taken one."""

import socket
import sys
from collections.abc import Iterable

import psutil

from eos_assets.errors import EosError

LOOPBACK = "127.0.0.1"

#: A port, what it is for, and where to choose another one.
WantedPort = tuple[int, str, str]


class ReservedPort:
    """A free port that no other program gets while we hold it, not even between a kill and a restart.

    A bound socket that does not listen keeps the kernel from handing the port out, and on Linux lets a server
    with SO_REUSEADDR (Java sets it) listen on it all the same. Elsewhere the port is merely likely to stay free.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self._socket.close()

    def release(self) -> None:
        self._socket.close()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def holder(port: int) -> str | None:
    """Who listens on the port, as a person would name it; None when nobody does."""
    if not is_listening(port):
        return None
    try:
        pids = {
            c.pid
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port
        }
    except psutil.AccessDenied:
        pids = set()
    for pid in pids - {None}:
        try:
            process = psutil.Process(pid)
            return f"process {pid}, {' '.join(process.cmdline()[:3])[:120] or process.name()}"
        except psutil.Error:
            continue
    return "a process of another user"


def require_free(port: int, purpose: str, setting: str) -> None:
    who = holder(port)
    if who:
        raise EosError(
            f"Port {port}, wanted for {purpose}, is taken by {who}.",
            f"End that process, or choose another port with {setting}.",
        )


def require_apart(wanted: Iterable[WantedPort]) -> None:
    taken: dict[int, str] = {}
    for port, purpose, setting in wanted:
        if port in taken:
            raise EosError(
                f"Port {port} is wanted for {taken[port]} and for {purpose}.", f"Choose another port with {setting}."
            )
        taken[port] = purpose
