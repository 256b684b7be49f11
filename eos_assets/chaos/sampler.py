"""Samples a soak while it runs: progress and memory."""

import os
from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING

import psutil

from eos_assets.chaos.samples import MemorySample, ProgressSample, memory_of

if TYPE_CHECKING:
    from eos_assets.chaos.soak import Soak

PROGRESS_SECONDS, MEMORY_SECONDS = 0.5, 2.0


class Repeated:
    """Calls a function in a thread of its own, again and again, until it is ended."""

    def __init__(self, name: str, work: Callable[[], None], pause: float) -> None:
        self._ended = Event()
        self._work = work
        self._pause = pause
        self._thread = Thread(target=self._repeat, daemon=True, name=name)

    def start(self) -> None:
        self._thread.start()

    def _repeat(self) -> None:
        while not self._ended.wait(self._pause):
            self._work()

    def end(self) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()


class Sampler:
    """Appends samples to the result of a soak."""

    def __init__(self, soak: "Soak") -> None:
        self.soak = soak
        self._threads = [
            Repeated("chaos-progress", self.sample_progress, PROGRESS_SECONDS),
            Repeated("chaos-memory", self.sample_memory, MEMORY_SECONDS),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        for thread in self._threads:
            thread.end()

    def sample_progress(self) -> None:
        self.soak.result.progress.append(
            ProgressSample(self.now, self.soak.loader.loaded, self.soak.follower.committed, self.soak.lag)
        )

    def sample_memory(self) -> None:
        processes = {**self.soak.servers.processes(), "eos chaos": [psutil.Process(os.getpid())]}
        for role, members in processes.items():
            self.soak.result.memory_samples.append(MemorySample(self.now, role, memory_of(members)))

    @property
    def now(self) -> float:
        return round(self.soak.elapsed, 2)
