"""Spark's daemon of Python workers, quick to begin a task: without archives on the path, without waiting for a timer of
the network, and with the modules that tasks need imported before the fork. docs/decisions/0010 has the figures."""

import gc
import importlib
import socket
from collections.abc import Callable

from eos_assets.worker_path import leave_archives

#: What nearly every task of ours needs: imported once, before workers are forked. No client is made by that.
PRELOADED = (
    "pandas",
    "pyspark.sql.pandas.serializers",
    "eos_assets.sink.task",
    "eos_assets.verify.sink_checker",
    "eos_assets.verify.source_checker",
)


def acknowledge_at_once(sock: socket.socket) -> None:
    """Spark's JVM sends a task in small pieces, and each waits until the one before is acknowledged: 40 ms, unless the
    kernel is told not to wait for an answer to ride on. Linux forgets that after a while, so it is told each task."""
    quick = getattr(socket, "TCP_QUICKACK", None)
    if quick is not None:
        sock.setsockopt(socket.IPPROTO_TCP, quick, 1)


def served(begin: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Spark's function that serves one task, made quick, and quiet where Spark has gone away: after an error elsewhere
    in its task it closes the connection. The daemon lets a worker that says 1 end, as it does after an exception."""

    def worker(sock: socket.socket, authenticated: bool) -> int:
        acknowledge_at_once(sock)
        try:
            return int(begin(sock, authenticated))
        except EOFError:
            return 1

    return worker


def serve() -> None:
    from pyspark import daemon

    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a worker collects garbage behind every task, and need not look at all this again
    daemon.worker = served(daemon.worker)  # type: ignore[assignment]
    daemon.manager()


if __name__ == "__main__":
    leave_archives()
    serve()
