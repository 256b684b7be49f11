"""Producers made ahead of time: connecting takes as long as all else in a short transaction."""

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from eos_assets.exactly_once.job import Job
from eos_assets.exactly_once.modes import Mode
from eos_assets.exactly_once.transaction import new_producer
from eos_assets.kafka.producer import Producer

#: Now and then a connection waits for one of librdkafka's timers, for more than half a second; then the other serves.
RESERVE = 2


class Spares:
    """Some connected producers in reserve. They fence nobody before their `init_transactions`."""

    def __init__(self, job: Job, partition: int) -> None:
        self.job = job
        self.partition = partition
        self._maker: ThreadPoolExecutor | None = None
        self._made: set[Future[Producer]] = set()

    def refill(self) -> None:
        """Begins to make what is missing in the reserve, in threads of its own."""
        if self.job.mode is Mode.EXACTLY_ONCE:
            self._maker = self._maker or ThreadPoolExecutor(RESERVE)
            while len(self._made) < RESERVE:
                self._made.add(self._maker.submit(new_producer, self.job, self.partition))

    def take(self) -> Producer | None:
        """The first one that is connected; None if none was begun."""
        if not self._made:
            return None
        ready = next(iter(wait(self._made, return_when=FIRST_COMPLETED).done))
        self._made.remove(ready)
        return ready.result()

    def close(self) -> None:
        for made in self._made:
            if made.exception() is None:
                made.result().close()
        if self._maker is not None:
            self._maker.shutdown()
