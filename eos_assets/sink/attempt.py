"""One attempt of a Spark task at one source partition: what it was given, and the consumer that it reads with."""

from dataclasses import dataclass

from eos_assets.log.ranges import OffsetRange
from eos_assets.log.reader import SourceReader
from eos_assets.sink.job import Job


@dataclass(frozen=True)
class Attempt:
    job: Job
    planned: OffsetRange
    #: Spark's number of the task attempt, from 0.
    task_attempt: int
    reader: SourceReader

    @property
    def partition(self) -> int:
        return self.planned.partition

    @property
    def patience(self) -> float:
        """Seconds until the broker aborts a transaction that is not committed."""
        return self.job.batching.timeout_ms / 1000

    def reach(self, failpoint: str, start: int | None = None) -> None:
        """Mark a step of the protocol: where an experiment or a test injects its faults."""
        place = self.planned.start if start is None else start
        self.job.faults.reach(failpoint, self.partition, place, self.job.run_attempt, self.task_attempt)
