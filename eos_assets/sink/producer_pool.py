"""Connects the producers of one source partition ahead of time."""

from concurrent.futures import Future, ThreadPoolExecutor

from eos_assets.kafka.producer import Producer
from eos_assets.sink.job import Job

CONNECT_SECONDS = 60.0


class ProducerPool:
    """The producers of one source partition: a new one for every transaction, connected ahead of time.

    Connecting takes as long as the rest of a short transaction, so the next producer connects while a transaction
    ends. It fences no other producer before its `init_transactions`.
    """

    def __init__(self, job: Job, partition: int) -> None:
        self.job = job
        self.partition = partition
        self._thread: ThreadPoolExecutor | None = None
        self._next: Future[Producer] | None = None

    def prepare(self) -> None:
        """Start to connect the next producer, in a thread of its own."""
        self._thread = self._thread or ThreadPoolExecutor(1)
        self._next = self._thread.submit(self._connect)

    def take(self) -> Producer:
        """Return the prepared producer, or a new one."""
        prepared, self._next = self._next, None
        return prepared.result() if prepared else self._connect()

    def close(self) -> None:
        if self._next is not None and self._next.exception() is None:
            self._next.result().close()
        if self._thread is not None:
            self._thread.shutdown()

    def _connect(self) -> Producer:
        job = self.job
        producer = Producer(
            {
                **job.kafka,
                "batch.size": job.batch_bytes,
                "transactional.id": job.names.transactional_id(self.partition),
                "transaction.timeout.ms": job.batching.timeout_ms,
                "message.timeout.ms": job.batching.timeout_ms,
            }
        )
        # Without an open connection, init_transactions waits for a timer of half a second.
        producer.connect(job.names.ledger, self.partition, CONNECT_SECONDS)
        return producer
