"""One run of one contender, and the interface that every contender has."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import psutil

from benchmarks.workload import Workload
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection


@dataclass(frozen=True)
class Trial:
    """One run: a source to read completely, and a new sink to write."""

    #: The name of the pipeline, application or job: none is used twice.
    id: str
    workload: Workload
    source: Topic
    sink: Topic


class Contender(Protocol):
    """A system that moves the records of a source to a sink."""

    def start(self, connection: Connection) -> None:
        """Start what outlives a run: a session, a server, a process."""

    def topics(self, trial: Trial) -> list[Topic]:
        """The topics that a run writes: created before it, outside the measured time. The first is the sink."""

    def run(self, trial: Trial) -> None:
        """Process the whole source, and return when the output is committed."""

    def settle(self) -> None:
        """Close what a run has left open, outside the measured time."""

    def processes(self) -> Iterable[psutil.Process]:
        """The processes whose time and memory are the contender's."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Description:
    """How the tables show a contender."""

    title: str
    #: Whether duplicates are an error.
    exactly_once: bool
    #: A slow contender gets this share of the records, so that a round does not take minutes.
    share: float = 1.0
