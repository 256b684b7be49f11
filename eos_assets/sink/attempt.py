"""One attempt of a Spark task at one source partition: what it was asked to write, and what it reads with."""

from dataclasses import dataclass

from eos_assets.log.ranges import OffsetRange
from eos_assets.log.reader import CommittedReader
from eos_assets.sink.job import Job


@dataclass(frozen=True)
class Attempt:
    """It lasts as long as the task works on the partition, over all of its transactions."""

    job: Job
    planned: OffsetRange
    #: The number that Spark gives the task attempt, from 0.
    task_attempt: int
    reader: CommittedReader

    @property
    def partition(self) -> int:
        return self.planned.partition

    @property
    def timeout(self) -> float:
        """The seconds after which the broker aborts a transaction that is still open."""
        return self.job.batching.timeout_ms / 1000

    def reach(self, failpoint: str, start: int | None = None) -> None:
        """Pass a failpoint of the protocol, where experiments and tests inject their faults."""
        offset = self.planned.start if start is None else start
        self.job.faults.reach(failpoint, self.partition, offset, self.job.run_attempt, self.task_attempt)
