"""The clients of a soak: a loader that fills the source, and a reader that follows the outputs meanwhile."""

import threading
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from confluent_kafka import KafkaException, Message, TopicPartition

from eos_assets.chaos.history import Completion, Fingerprints, LoadOperation, ReadOperation, fingerprint, fingerprints
from eos_assets.deadlines import poll_until
from eos_assets.errors import EosError
from eos_assets.experiment.fill import fill
from eos_assets.experiment.observation import plain_consumer, read_topic
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.reader import PartitionId
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry

#: The seconds that one fill takes. The loader ends between two of them.
FILL_SECONDS = 4
POLL_RECORDS, POLL_SECONDS = 5_000, 0.2
GROUP = "eos-chaos"


class Loader:
    """Fills a topic at a constant rate, by one fill after the other. A fill that fails is completed by the next one."""

    def __init__(self, connection: Connection, topic: str, rate: float) -> None:
        self.connection = connection
        self.topic = topic
        self.rate = rate
        self.operations: list[LoadOperation] = []
        #: The records that were acknowledged.
        self.loaded = 0
        self._next = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._load, daemon=True, name="chaos-loader")

    def start(self) -> None:
        self._thread.start()

    def _load(self) -> None:
        count = max(1, int(self.rate * FILL_SECONDS))
        while not (self.fill(count) and self._ended.is_set()):
            continue

    def fill(self, count: int) -> bool:
        """Fill at the rate, and return whether every record was acknowledged."""
        before = self.loaded

        def progress(acknowledged: int) -> None:
            self.loaded = before + acknowledged

        try:
            filled = fill(self.connection, self.topic, count, rate=self.rate, progress=progress)
        except (EosError, KafkaException):
            self.operations.append(LoadOperation(Completion.UNKNOWN, np.empty(0, np.uint64)))
            return False
        # The topic now holds all integers below `next`, also those of a fill before that failed.
        self.operations.append(LoadOperation(Completion.OK, integers(self._next, filled.next)))
        self._next = self.loaded = filled.next
        return True

    def end(self, seconds: float) -> bool:
        """End after the current fill, or after the one that completes it. Returns whether it has ended in time."""
        self._ended.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()


def integers(start: int, end: int) -> Fingerprints:
    """The records of a fill: key and value are the decimal integer."""
    return fingerprints((b"%d" % number, b"%d" % number) for number in range(start, end))


class Follower:
    """A plain consumer of committed data that reads topics from their beginning, in a thread of its own.

    It reads the ledger, too: the positions in its entries show the progress at once, also after an outage.
    """

    NAME = "follower"

    def __init__(self, connection: Connection, topics: Iterable[str], ledger_topic: str) -> None:
        self.operations: list[ReadOperation] = []
        #: Source partition → the position after its last committed transaction.
        self.positions = dict.fromkeys(connection.partitions(ledger_topic), 0)
        self.ledger_topic = ledger_topic
        self._ends: dict[PartitionId, int] = {
            (topic, p): 0 for topic in (*topics, ledger_topic) for p in connection.partitions(topic)
        }
        self._consumer = plain_consumer(connection, GROUP, "read_committed")
        self._consumer.assign([TopicPartition(topic, p, 0) for topic, p in self._ends])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name="chaos-follower")

    @property
    def committed(self) -> int:
        """The source records that are committed. A fill leaves no holes between offsets."""
        return sum(self.positions.values())

    def start(self) -> None:
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            polled: dict[PartitionId, list[Message]] = defaultdict(list)
            for message in self._consumer.consume(POLL_RECORDS, timeout=POLL_SECONDS):
                if message.error() is None:  # the others are ends of partitions and outages, after which it reads on
                    polled[message.topic() or "", message.partition() or 0].append(message)
            for partition, received in polled.items():
                self._receive(partition, received)

    def _receive(self, partition: PartitionId, received: list[Message]) -> None:
        topic, number = partition
        if topic == self.ledger_topic:
            entry = ledger.read(received[-1])
            self.positions[number] = entry.next if isinstance(entry, LedgerEntry) else entry.start
            return
        operation = read_operation(self.NAME, partition, self._ends[partition], received)
        self.operations.append(operation)
        self._ends[partition] = operation.end

    def await_reads(self, reads: Iterable[ReadOperation], seconds: float) -> bool:
        """Wait until every record that these reads returned has been received."""
        last = {(read.topic, read.partition): int(read.offsets[-1]) for read in reads if len(read.offsets)}
        return poll_until(
            lambda: all(self._ends[partition] > offset for partition, offset in last.items()), seconds, POLL_SECONDS
        )

    def end(self) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._consumer.close()


def read_operation(reader: str, partition: PartitionId, start: int, received: list[Message]) -> ReadOperation:
    """What a reader received of one partition, from the end of its last read on."""
    offsets = np.array([message.offset() for message in received], np.int64)
    records = fingerprints((message.key(), message.value()) for message in received)
    return ReadOperation(reader, *partition, start, int(offsets[-1]) + 1, offsets, records)


def read_topics(connection: Connection, topics: Iterable[str], reader: str) -> Iterator[ReadOperation]:
    """Read topics from beginning to end with a plain consumer of committed data. Records are not kept."""
    for topic in topics:
        ends = stable_ends(connection, topic, connection.partitions(topic))
        offsets = {partition: array("q") for partition in ends}
        records = {partition: array("Q") for partition in ends}
        for message in read_topic(connection, topic, "read_committed"):
            partition = message.partition() or 0
            offsets[partition].append(message.offset() or 0)
            records[partition].append(fingerprint(message.key(), message.value()))
        for partition, end in ends.items():
            columns = np.array(offsets[partition], np.int64), np.array(records[partition], np.uint64)
            yield ReadOperation(reader, topic, partition, 0, end, *columns)
