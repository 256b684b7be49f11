"""Pipelines from many partitions to many whose writers are killed, and what plain readers must find afterwards."""

import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from eos_assets.declare.options import Batching
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.platform.folders import write_atomically
from eos_assets.run.plan import make_plan
from eos_assets.sink.job import NoFaults
from eos_assets_tests.kafka.reading import read_pairs
from eos_assets_tests.run.lab import Lab, declare
from eos_assets_tests.sink.watcher import Seen
from eos_assets_tests.waiting import wait_for

#: A writer is killed each time when its partition has advanced by this share.
SHARE = 0.2

#: The source has three partitions. The numbers have no common divisor, so each source partition has records for each
#: sink partition.
SOURCE_PARTITIONS, SINK_PARTITIONS = 3, 4


def declare_many_to_many(kind: str, records: int) -> Pipeline:
    """The squares, in transactions of this many records."""
    sink = Topic(f"many-{uuid.uuid4().hex[:10]}", partitions=SINK_PARTITIONS)
    return declare(kind=kind, partitions=SOURCE_PARTITIONS, sink=sink, batching=Batching(records=records))


def assert_each_square_once_in_order(lab: Lab) -> None:
    """Each integer of the source has one square, and those that came from one source partition into one sink partition
    are in the order of the source. Who read the sink meanwhile has seen the same."""
    servers = lab.connection.bootstrap_servers
    origins = {
        key: (partition, index)
        for partition, pairs in read_pairs(servers, lab.source).items()
        for index, (key, _) in enumerate(pairs)
    }
    last: dict[tuple[int, int], int] = {}
    final: Seen = {partition: [] for partition in range(SINK_PARTITIONS)}
    for message in lab.read():
        target, key, value = message.partition() or 0, message.key(), message.value()
        assert key in origins, f"{key!r} is in the sink twice, or not in the source"
        assert int(value or 0) == int(key) ** 2
        source, index = origins.pop(key)
        assert last.get((source, target), -1) < index, f"{source} → {target} is not in order"
        last[source, target] = index
        final[target].append((message.offset() or 0, key, value))
    assert origins == {}, "missing"
    assert set(last) == {(p, q) for p in range(SOURCE_PARTITIONS) for q in range(SINK_PARTITIONS)}, "many to many"
    assert lab.watcher
    lab.watcher.assert_read(final)


#: Where the writer of a partition stops itself to be killed: the share of its records at which the transaction begins,
#: and the step.
MARKS = ((0.2, "mid_produce"), (0.4, "before_commit"), (0.6, "after_commit"))


@dataclass(frozen=True)
class StoppedAtMarks(NoFaults):
    """Each writer stops itself once at each mark, and leaves its process id in a file that is named after it."""

    folder: str
    #: Source partition → its number of records.
    sizes: dict[int, int]

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        for number, (share, step) in enumerate(MARKS):
            file = Path(self.folder, f"{partition}-{number}")
            if step == failpoint and start >= share * self.sizes[partition] and not file.exists():
                file.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGSTOP)

    def kill_stopped(self) -> Iterator[tuple[int, int]]:
        """Kill every writer that has stopped itself. Yields partition and number of the mark."""
        for file in Path(self.folder).glob("?-?"):
            pid = int(file.read_text() or 0)
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.status() == psutil.STATUS_STOPPED:
                    process.kill()
                    partition, number = map(int, file.name.split("-"))
                    yield partition, number


@dataclass(frozen=True)
class Named(NoFaults):
    """No fault: each writer leaves its process id in a file that is named after its partition. The last fifth of a
    partition is written only when every broker has been down, so that no broker comes too late."""

    folder: str
    sizes: dict[int, int]

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        if failpoint == "after_init":
            write_atomically(Path(self.folder, str(partition)), str(os.getpid()))
        if failpoint == "after_commit" and start >= (1 - SHARE) * self.sizes[partition]:
            wait_for(Path(self.folder, "bounced").exists, 300)


@dataclass
class Killer:
    """Kills the writer of each partition whenever its position has advanced far enough."""

    lab: Lab
    folder: Path
    sizes: dict[int, int]
    kills: list[int] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.next = {p: int(size * SHARE) for p, size in self.sizes.items()}
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        while not self.done.wait(0.1):
            try:
                plans = make_plan(self.lab.pipeline, self.lab.connection)
            except Exception:  # a broker is down
                continue
            for plan in plans:
                if plan.lag and plan.position >= self.next[plan.partition]:
                    self.kill(plan.partition)
                    self.next[plan.partition] = plan.position + int(self.sizes[plan.partition] * SHARE)

    def has_killed(self, count: int) -> bool:
        assert self.thread.is_alive()
        return len(self.kills) >= count

    def kill(self, partition: int) -> None:
        pid = int((self.folder / str(partition)).read_text())
        try:
            os.kill(pid, signal.SIGKILL)
            self.kills.append(partition)
        except ProcessLookupError:
            return  # it has just ended by itself
