"""Measures how far a reader of committed data lags behind one of uncommitted data during a run."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks.results import Lag, VisibilityResult
from benchmarks.rounds import take_turns
from benchmarks.stage import Measurement, Stage
from benchmarks.tables import visibility_table
from benchmarks.throughput import share_of
from benchmarks.workload import INTEGERS
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import HIGH_WATERMARK, LAST_STABLE, list_offsets

SAMPLE_SECONDS = 0.02
#: The offsets of each partition at which the lag is taken, at equal distances.
PLACES = 1000


@dataclass(frozen=True)
class Sample:
    """What both readers saw of one partition at a moment."""

    seconds: float
    stable: int
    high: int


def lags_of(samples: Sequence[Sample]) -> list[float]:
    """The lag at some offsets of one partition: from when the high watermark has passed one until the last stable
    offset has. The samples end when both are equal."""
    times = np.array([sample.seconds for sample in samples])
    stable = np.maximum.accumulate([sample.stable for sample in samples])
    high = np.maximum.accumulate([max(sample.high, sample.stable) for sample in samples])
    if not stable[-1]:
        return []
    offsets = np.linspace(1, stable[-1], PLACES)
    lags: list[float] = (times[np.searchsorted(stable, offsets)] - times[np.searchsorted(high, offsets)]).tolist()
    return lags


class LagObserver:
    """Samples the offsets of a sink inside the `with` block."""

    def __init__(self, connection: Connection, sink: Topic) -> None:
        self._connection = connection
        self._partitions = [(sink.name, partition) for partition in range(sink.partitions)]
        self._samples: dict[int, list[Sample]] = {partition: [] for partition in range(sink.partitions)}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "LagObserver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()

    def lags(self) -> list[float]:
        return [lag for samples in self._samples.values() for lag in lags_of(samples)]

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        stable, high = list_offsets(self._connection, self._partitions, LAST_STABLE, HIGH_WATERMARK)
        now = time.monotonic()
        for topic, partition in self._partitions:
            self._samples[partition].append(Sample(now, stable[topic, partition], high[topic, partition]))


def measure_visibility(
    stage: Stage, records: int, names: Sequence[str], *, warm_ups: int, rounds: int, console: Console
) -> VisibilityResult:
    available = stage.contenders.available(names)
    sources = {name: stage.source(INTEGERS, share_of(name, records)) for name in available}
    observers: dict[str, list[LagObserver]] = {name: [] for name in available}

    def run(name: str) -> Measurement:
        def observe(connection: Connection, sink: Topic) -> LagObserver:
            observers[name].append(LagObserver(connection, sink))
            return observers[name][-1]

        return stage.measure(name, sources[name], observe)

    take_turns("visibility", available, run, warm_ups=warm_ups, rounds=rounds, console=console)
    lags = {name: [observer.lags() for observer in observers[name][warm_ups:]] for name in available}
    result = VisibilityResult(
        records=records,
        lags={
            name: Lag(
                median=[round(float(np.median(each)), 3) for each in rounds_of],
                maximum=[round(max(each), 3) for each in rounds_of],
            )
            for name, rounds_of in lags.items()
        },
    )
    console.print(visibility_table(result).rich())
    stage.drop_sources()
    return result
