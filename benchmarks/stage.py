"""Where the contenders run: one broker, its sources, and a measured and verified run on them."""

import itertools
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from benchmarks.contenders import DESCRIPTIONS, Contenders
from benchmarks.contents import Contents, differences, expected_contents, read_contents
from benchmarks.load import load
from benchmarks.trial import Trial
from benchmarks.usage import Usage, UsageMeter
from benchmarks.workload import Workload
from eos_assets.deadlines import Deadline
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import HIGH_WATERMARK, LAST_STABLE, list_offsets
from eos_assets.local.broker import KafkaCluster
from eos_assets.platform.settings import Settings

POLL_SECONDS = 0.01
VISIBLE_SECONDS = 60
#: Deleted topics leave the disk after a second instead of a minute.
BROKER = {"log.segment.delete.delay.ms": "1000"}

#: Observes the sink during a run.
Observe = Callable[[Connection, Topic], AbstractContextManager[object]]


@dataclass(frozen=True)
class Source:
    """A filled topic, and what the sink of a run over it must hold."""

    topic: Topic
    workload: Workload
    records: int
    expected: Contents


@dataclass(frozen=True)
class Measurement:
    """One run: from the command until a reader of committed data sees the complete output."""

    seconds: float
    usage: Usage


class Stage:
    """A broker and the contenders, for all sections of a benchmark."""

    def __init__(self, settings: Settings) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="eos-bench-")
        self.folder = Path(self._folder.name)
        self.settings = settings
        self.cluster = KafkaCluster(self.folder / "kafka", settings=settings, overrides=BROKER)
        self.connection = self.cluster.connection
        self.contenders = Contenders(settings, self.connection)
        self._numbers = itertools.count(1)
        self._sources: dict[tuple[str, int, int], Source] = {}

    def __enter__(self) -> "Stage":
        self.cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.contenders.close()
        self.cluster.close()
        self._folder.cleanup()

    def source(self, workload: Workload, records: int, partitions: int = 3) -> Source:
        """A topic with the first records of a workload. It is filled once."""
        name = (workload.name, records, partitions)
        if name not in self._sources:
            topic = Topic(f"{workload.name}-{records}-{partitions}", partitions)
            create_topics([topic], self.connection)
            load(self.connection, topic.name, partitions, workload, records)
            expected = expected_contents(self.connection, topic.name, workload, partitions)
            self._sources[name] = Source(topic, workload, records, expected)
        return self._sources[name]

    def drop_sources(self) -> None:
        """Delete all sources, so that the disk does not fill up."""
        self._delete([source.topic.name for source in self._sources.values()])
        self._sources.clear()

    def measure(self, name: str, source: Source, observe: Observe | None = None) -> Measurement:
        """Let a contender process a source, and verify what it wrote."""
        contender, number = self.contenders[name], next(self._numbers)
        trial = Trial(f"run_{number}", source.workload, source.topic, Topic(f"sink-{number}", source.topic.partitions))
        topics = contender.topics(trial)
        create_topics(topics, self.connection)
        observing = observe(self.connection, topics[0]) if observe else nullcontext()
        with UsageMeter(contender.processes, self._broker()) as meter, observing:
            started = time.monotonic()
            contender.run(trial)
            self._await_visible(topics[0], source.records)
            seconds = time.monotonic() - started
        contender.settle()
        problems = differences(
            source.expected,
            read_contents(self.connection, topics[0].name),
            duplicates_allowed=not DESCRIPTIONS[name].exactly_once,
        )
        if problems:
            raise EosError(
                f"The output of {name} for {source.records:,} records of {source.workload.name} is wrong: "
                f"{'; '.join(problems)}.",
                "Do not use its figures. Correct it, and measure again.",
            )
        self._delete([topic.name for topic in topics])
        return Measurement(seconds, meter.usage)

    def _broker(self) -> psutil.Process:
        process = self.cluster.nodes[0].process
        handle = process.handle() if process else None
        assert handle is not None
        return handle

    def _await_visible(self, sink: Topic, records: int) -> None:
        """Wait until no transaction is open and the sink is long enough for all records."""
        partitions = [(sink.name, partition) for partition in range(sink.partitions)]
        deadline = Deadline(VISIBLE_SECONDS)
        while True:
            (stable,) = list_offsets(self.connection, partitions, LAST_STABLE)
            if sum(stable.values()) >= records:
                (high,) = list_offsets(self.connection, partitions, HIGH_WATERMARK)
                if stable == high:
                    return
            if deadline.passed:
                raise EosError(
                    f"{sink.name} is stable up to {sum(stable.values()):,} instead of {records:,} records, "
                    f"{VISIBLE_SECONDS} s after the contender was done.",
                    "See the logs of the contender and of the broker.",
                )
            time.sleep(POLL_SECONDS)

    def _delete(self, topics: list[str]) -> None:
        for future in self.connection.admin.delete_topics(topics).values():
            future.result()
