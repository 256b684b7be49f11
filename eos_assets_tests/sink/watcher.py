"""A reader of committed data that reads while runs crash and recover, and shares no code with the project."""

import threading

from confluent_kafka import Consumer, TopicPartition

from eos_assets_tests.waiting import wait_for

Seen = dict[int, list[tuple[int, bytes | None, bytes | None]]]


class Watcher:
    """Reads a topic from its start in a thread of its own, and keeps what it saw: offset, key, value per partition."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.seen: Seen = {p: [] for p in range(partitions)}
        self.at_end: set[int] = set()
        self.failed: list[str] = []
        self._done = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "watcher",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._done.is_set():
            for message in self._consumer.consume(1000, timeout=0.2):
                partition, error = message.partition(), message.error()
                if error is None and partition is not None:
                    self.seen[partition].append((message.offset() or 0, message.key(), message.value()))
                elif error is not None and error.name() != "_PARTITION_EOF":
                    self.failed.append(str(error))

    def assert_read(self, final: Seen) -> None:
        """Assert that what was read meanwhile is the final content: no record disappeared or was inserted later."""
        wait_for(lambda: sum(map(len, self.seen.values())) >= sum(map(len, final.values())))
        for partition, rows in final.items():
            assert self.seen[partition] == rows, f"partition {partition} was read with other records meanwhile"

    def stop(self) -> None:
        self._done.set()
        self._thread.join(10)
        self._consumer.close()
