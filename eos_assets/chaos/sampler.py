"""Samples a soak while it runs: positions, progress and memory."""

import os
from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING

import psutil

from eos_assets.chaos.samples import MemorySample, ProgressSample, resident_bytes
from eos_assets.run.plan import make_plan

if TYPE_CHECKING:
    from eos_assets.chaos.soak import Soak

PLAN_SECONDS, PROGRESS_SECONDS, MEMORY_SECONDS = 0.5, 1.0, 2.0


class Repeated:
    """Calls a function in a thread of its own, again and again, until it is ended. A failure is not repeated faster."""

    def __init__(self, name: str, work: Callable[[], None], pause: float) -> None:
        self._ended = Event()
        self._work = work
        self._pause = pause
        self._thread = Thread(target=self._repeat, daemon=True, name=name)

    def start(self) -> None:
        self._thread.start()

    def _repeat(self) -> None:
        while not self._ended.wait(self._pause):
            try:
                self._work()
            except Exception:  # a broker is down: there is nothing to sample
                continue

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


class Sampler:
    """Appends samples to the result of a soak. Plans have a thread of their own, because brokers that are down delay
    them."""

    def __init__(self, soak: "Soak") -> None:
        self.soak = soak
        #: Source partition → its committed position, and the lag of all of them, when they were last read.
        self.positions: dict[int, int] = {}
        self.lag = 0
        #: When reading them began, in seconds since the start of the soak.
        self.planned_at = 0.0
        self._threads = [
            Repeated("chaos-plan", self.plan, PLAN_SECONDS),
            Repeated("chaos-progress", self.sample_progress, PROGRESS_SECONDS),
            Repeated("chaos-memory", self.sample_memory, MEMORY_SECONDS),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        for thread in self._threads:
            thread.end()

    def plan(self) -> None:
        began = self.soak.elapsed
        plans = make_plan(self.soak.pipeline, self.soak.connection)
        self.positions = {plan.partition: plan.position for plan in plans}
        self.lag = sum(plan.lag for plan in plans)
        self.planned_at = began

    def sample_progress(self) -> None:
        loaded, received = self.soak.loader.loaded, self.soak.follower.received
        committed = sum(self.positions.values())
        self.soak.result.progress.append(ProgressSample(self.now, loaded, committed, self.lag, received))

    def sample_memory(self) -> None:
        processes = {**self.soak.servers.processes(), "eos chaos": [psutil.Process(os.getpid())]}
        for role, members in processes.items():
            self.soak.result.memory_samples.append(MemorySample(self.now, role, resident_bytes(members)))

    @property
    def now(self) -> float:
        return round(self.soak.elapsed, 2)
