"""Reads back what a run has committed: its entries in the ledger."""

from collections.abc import Iterator

from eos_assets.deadlines import poll_until
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partitions
from eos_assets.log import ledger
from eos_assets.log.ledger import LedgerEntry

#: How long the end of a transaction may take to reach the ledger after the broker has acknowledged its commit.
LEDGER_SECONDS = 10.0
POLL_SECONDS = 0.005

#: The offset of an entry in its ledger partition, and the entry.
LocatedEntry = tuple[int, LedgerEntry]


def await_entries(
    connection: Connection, topic: str, starts: dict[int, int], run: str, committed: dict[int, int]
) -> list[LocatedEntry]:
    """The entries of a run, once they cover what it has committed. The end of a transaction reaches the partitions of
    the ledger some time after its commit.

    Args:
        connection: the cluster.
        topic: the ledger.
        starts: where to read each of its partitions from.
        run: the id of the run.
        committed: source partition → the position that the run has committed.
    """
    entries: list[LocatedEntry] = []

    def complete() -> bool:
        entries[:] = read_entries(connection, topic, starts, run)
        reached = {entry.partition: entry.next for _, entry in entries}
        return all(reached.get(p, -1) >= end for p, end in committed.items())

    poll_until(complete, LEDGER_SECONDS, POLL_SECONDS)
    return sorted(entries, key=lambda located: (located[1].partition, located[1].start))


def read_entries(connection: Connection, topic: str, starts: dict[int, int], run: str) -> Iterator[LocatedEntry]:
    for message in read_partitions(connection, {(topic, p): start for p, start in starts.items()}):
        entry = ledger.read(message)
        if isinstance(entry, LedgerEntry) and entry.run == run:
            yield message.offset() or 0, entry
