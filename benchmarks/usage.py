"""The processor time and the memory that some processes use."""

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil

Processes = Callable[[], Iterable[psutil.Process]]

SAMPLE_SECONDS = 0.1
#: How Spark's Python workers of this project are started.
WORKER_MODULE = "eos_assets.platform.worker_startup"


class PeakMemory:
    """The highest resident memory inside the `with` block: of all the processes together, and of the largest of those
    that run a user's Python. Forked workers share memory, which is counted in each."""

    def __init__(self, processes: Processes) -> None:
        self.total = 0
        self.worker = 0
        self._processes = processes
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            sizes = {process: size for process in self._processes() if (size := resident_bytes(process))}
            self.total = max(self.total, sum(sizes.values()))
            workers = [size for process, size in sizes.items() if is_worker(process)]
            self.worker = max(self.worker, *workers, 0)


def tree_of(process: psutil.Process) -> list[psutil.Process]:
    """A process and all that it started."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def python_workers() -> list[psutil.Process]:
    """The Python workers of the Spark of this process."""
    return [process for process in tree_of(psutil.Process()) if is_worker(process)]


def is_worker(process: psutil.Process) -> bool:
    try:
        return WORKER_MODULE in process.cmdline()
    except psutil.Error:
        return False


def resident_bytes(process: psutil.Process) -> int:
    """The resident memory of a process that a contender runs in; 0 for this process, which holds the benchmark."""
    try:
        return 0 if process.pid == os.getpid() else int(process.memory_info().rss)
    except psutil.Error:
        return 0


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """What these processes have used so far, with those of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@dataclass(frozen=True)
class Usage:
    """What one run used."""

    cpu_seconds: float
    broker_cpu_seconds: float
    memory_bytes: int
    worker_bytes: int


class UsageMeter:
    """Measures the processes of a contender, and the broker, inside the `with` block."""

    def __init__(self, processes: Processes, broker: psutil.Process) -> None:
        self._processes = processes
        self._broker = broker
        self._memory = PeakMemory(processes)

    def __enter__(self) -> "UsageMeter":
        self._before = cpu_seconds(self._processes()), cpu_seconds([self._broker])
        self._memory.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.__exit__()
        self._after = cpu_seconds(self._processes()), cpu_seconds([self._broker])

    @property
    def usage(self) -> Usage:
        (own, broker), (own_before, broker_before) = self._after, self._before
        return Usage(own - own_before, broker - broker_before, self._memory.total, self._memory.worker)
