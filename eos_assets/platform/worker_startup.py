"""Spark's daemon of Python workers, made to start a task quickly: docs/decisions/0010 has the figures."""

import gc
import importlib
import socket
from collections.abc import Callable

from eos_assets.worker import prepare_worker

#: What nearly every task needs: imported once, before workers are forked. These imports create no client.
PRELOADED = (
    "pandas",
    "pyspark.sql.pandas.serializers",
    "eos_assets.sink.arrow_task",
    "eos_assets.verify.totals.topic_pass",
)

#: Runs one task, from its socket and whether the JVM is authenticated, and returns an exit code.
RunTask = Callable[[socket.socket, bool], int]


def acknowledge_immediately(sock: socket.socket) -> None:
    """Spark's JVM sends a task in small pieces and waits for the acknowledgement of each: 40 ms, unless the kernel
    sends it without waiting for an answer to attach it to. Linux resets the option, so it is set for each task."""
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, 1)


def wrap_worker(run_task: RunTask) -> RunTask:
    """Wrap Spark's function that runs one task. After an error elsewhere in a task Spark closes the connection: the
    worker then ends without a stack trace, with the exit code 1 of any failure."""

    def worker(sock: socket.socket, authenticated: bool) -> int:
        acknowledge_immediately(sock)
        try:
            return int(run_task(sock, authenticated))
        except EOFError:
            return 1

    return worker


def serve() -> None:
    from pyspark import daemon

    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a worker collects garbage after every task, and skips frozen objects
    daemon.worker = wrap_worker(daemon.worker)  # type: ignore[assignment]
    daemon.manager()


if __name__ == "__main__":
    prepare_worker()
    serve()
