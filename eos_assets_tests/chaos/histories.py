"""A correct history: two source partitions, transactions over two sinks, two readers; and changes of single parts."""

import numpy as np

from eos_assets.chaos.history import (
    CommittedTransaction,
    Completion,
    Fingerprints,
    History,
    LoadOperation,
    Offsets,
    Outputs,
    ReadOperation,
    RunOperation,
    TransactionId,
    TransactionOperation,
    fingerprints,
)
from eos_assets.kafka.offsets import OffsetRange

SOURCE, SINKS = "orders", ("paid", "booked")
#: The source records of each transaction, and the transactions of each of two source partitions.
SIZE, TRANSACTIONS, PARTITIONS = 4, 3, 2


def numbers(*values: int) -> Offsets:
    return np.array(values, np.int64)


def records(topic: str, partition: int, offsets: Offsets) -> Fingerprints:
    """Each record differs from every other one."""
    return fingerprints((b"key", f"{topic}/{partition}/{offset}".encode()) for offset in offsets)


def read(reader: str, topic: str, partition: int, start: int, end: int, *offsets: int) -> ReadOperation:
    return ReadOperation(
        reader, topic, partition, start, end, numbers(*offsets), records(topic, partition, numbers(*offsets))
    )


def transaction(partition: int, number: int) -> CommittedTransaction:
    """Source partition p writes to partition p of both sinks. Each commit leaves a marker, which takes one offset."""
    start = SIZE * number
    sources = numbers(*range(start, start + SIZE))
    outputs = tuple(
        Outputs(sink, partition, sources + number, sources, numbers(*[index] * SIZE))
        for index, sink in enumerate(SINKS)
    )
    return CommittedTransaction(TransactionId(f"run-{number}", 1, 0, partition, start), start + SIZE, outputs)


def history() -> History:
    """Everything was loaded, committed and read: by a reader that polled meanwhile, and by one at the end."""
    end = SIZE * TRANSACTIONS
    whole = History(SOURCE)
    for partition in range(PARTITIONS):
        offsets = numbers(*range(end))
        whole.loads.append(LoadOperation(Completion.OK, records(SOURCE, partition, offsets)))
        whole.reads.append(read("final", SOURCE, partition, 0, end, *range(end)))
        for number in range(TRANSACTIONS):
            committed = transaction(partition, number)
            covered = OffsetRange(partition, committed.id.start, committed.next)
            whole.committed.append(committed)
            whole.transactions.append(TransactionOperation(committed.id, Completion.OK))
            whole.runs.append(RunOperation(committed.id.run, Completion.OK, (covered,)))
        for sink in SINKS:
            visible = [SIZE * n + n + i for n in range(TRANSACTIONS) for i in range(SIZE)]
            for low in range(0, len(visible), 5):
                polled = visible[low : low + 5]
                before = visible[low - 1] + 1 if low else 0
                whole.reads.append(read("follower", sink, partition, before, polled[-1] + 1, *polled))
            whole.reads.append(read("final", sink, partition, 0, end + TRANSACTIONS, *visible))
    unknown = TransactionId("killed", 1, 0, 0, 0)
    whole.transactions.append(TransactionOperation(unknown, Completion.UNKNOWN))
    whole.runs.append(RunOperation("killed", Completion.UNKNOWN))
    return whole
