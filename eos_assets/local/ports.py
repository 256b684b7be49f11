"""Ports on loopback: free ones that stay reserved, and the process that holds a taken one."""

import socket
import sys
from collections.abc import Iterable

import psutil

from eos_assets.errors import EosError
from eos_assets.platform.loopback import LOOPBACK

#: A port, its purpose, and the setting that chooses another one.
WantedPort = tuple[int, str, str]


class ReservedPort:
    """A free port that no other program gets while it is reserved, not even between a kill and a restart.

    The kernel does not hand out the port of a bound socket, even if that does not listen. On Linux a server with
    SO_REUSEADDR, which Java sets, can still listen on it. Elsewhere the port is only likely to stay free.
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
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex((LOOPBACK, port)) == 0


def find_holder(port: int) -> str | None:
    """The process that listens on a port, in words; None if the port is free."""
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
    holder = find_holder(port)
    if holder:
        raise EosError(
            f"Port {port}, wanted for {purpose}, is taken by {holder}.",
            f"End that process, or choose another port with {setting}.",
        )


def require_distinct(wanted: Iterable[WantedPort]) -> None:
    taken: dict[int, str] = {}
    for port, purpose, setting in wanted:
        if port in taken:
            raise EosError(
                f"Port {port} is wanted for {taken[port]} and for {purpose}.", f"Choose another port with {setting}."
            )
        taken[port] = purpose
