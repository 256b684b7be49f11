"""A producer made ahead of time: connecting takes as long as all else in a short transaction."""

from concurrent.futures import Future, ThreadPoolExecutor

from eos_assets.exactly_once.job import Job
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.transaction import new_producer
from eos_assets.kafka.producer import Producer


class Spare:
    """The producer of the next transaction, connected while this one ends. It fences nobody before its
    `init_transactions`."""

    def __init__(self, job: Job, partition: int) -> None:
        self.job = job
        self.partition = partition
        self._maker: ThreadPoolExecutor | None = None
        self._made: Future[Producer] | None = None

    def make(self) -> None:
        """Begins to make it, in a thread of its own. The weaker modes keep the producer they have."""
        if self.job.mode is Mode.EXACTLY_ONCE:
            self._maker = self._maker or ThreadPoolExecutor(1)
            self._made = self._maker.submit(new_producer, self.job, self.partition)

    def take(self) -> Producer | None:
        """It, once it is connected; None if none was begun."""
        made, self._made = self._made, None
        return made.result() if made else None

    def close(self) -> None:
        if self._made is not None and self._made.exception() is None:
            self._made.result().close()
        if self._maker is not None:
            self._maker.shutdown()
