"""Spark's daemon of Python workers, made to start a task quickly: docs/decisions/0010 has the figures."""

import gc
import importlib
import os
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

from eos_assets.worker import prepare_worker

#: What nearly every task needs: imported once, before workers are forked. These imports create no client.
PRELOADED = (
    "pandas",
    "pyspark.sql.pandas.serializers",
    "eos_assets.sink.arrow_task",
    "eos_assets.verify.totals.topic_pass",
)

#: Spark ends a worker after a minute without a task, and a daemon without workers ends after this time.
IDLE_SECONDS = 60.0

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


def end_when_idle(seconds: float) -> None:
    """End this daemon when it has had no worker for this time.

    Each session of Spark Connect has a daemon of its own, which Spark keeps until the server ends, long after the
    session. If a session goes on, Spark starts another daemon. A timer is not inherited by the workers that are forked.
    """
    busy_at = time.monotonic()

    def look(signal_number: int, frame: FrameType | None) -> None:
        nonlocal busy_at
        try:
            os.waitpid(-1, os.WNOHANG)
            busy_at = time.monotonic()
        except ChildProcessError:  # no worker lives
            if time.monotonic() - busy_at >= seconds:
                os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds / 4, seconds / 4)


def serve() -> None:
    from pyspark import daemon

    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a worker collects garbage after every task, and skips frozen objects
    end_when_idle(IDLE_SECONDS)
    daemon.worker = wrap_worker(daemon.worker)  # type: ignore[assignment]
    daemon.manager()


if __name__ == "__main__":
    prepare_worker()
    serve()
