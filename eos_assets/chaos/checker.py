"""The history checker: finds the anomalies of a recorded history, which exactly-once processing excludes.

It is a pure function in the manner of Jepsen's checkers. It reads no topic and trusts no report: an acknowledgement is
held against what was committed, and what was committed against what readers of committed data received.

The history must end after everything that was loaded has been committed, with reads of the source and of every output.

`lost_write`
    What was acknowledged is not there. A loaded record is not in the source; a record of the source is in no committed
    transaction; a range that a run reported as committed, or a transaction whose commit returned, is not committed; or
    a reader that read past the outputs of a committed transaction received none of them.
`aborted_read`
    A reader received a record that no committed transaction wrote, or a transaction is committed of which its worker
    knows that it was aborted.
`torn_transaction`
    A reader received some outputs of a transaction, and read past others without receiving them, in any partition of
    any topic.
`duplicate`
    A record is in the source twice; two committed transactions cover one source offset; or a reader received two
    records with one origin.
`nonmonotonic_read`
    The offsets that a reader received in a partition go back, or the origins of one source partition go back within an
    output partition.
`inconsistent_offset`
    Two reads of one offset returned different records.

An operation whose completion is unknown may have had its effect or not: only a part of the effect is an anomaly.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from eos_assets.chaos.history import Completion, History
from eos_assets.chaos.indexed_history import IndexedHistory, PartitionLog, join

#: The examples that are kept of each anomaly.
SHOWN = 5


@dataclass(frozen=True)
class Anomaly:
    """How often one kind of anomaly was found, with the first examples."""

    kind: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}, {self.count:,} times: {'; '.join(self.examples)}"


def find_anomalies(history: History) -> list[Anomaly]:
    """The anomalies of a history; none of a correct one."""
    indexed = IndexedHistory(history)
    found = {kind: list(find(indexed)) for kind, find in FINDERS.items()}
    return [Anomaly(kind, len(texts), tuple(texts[:SHOWN])) for kind, texts in found.items() if texts]


def lost_writes(history: IndexedHistory) -> Iterator[str]:
    yield from lost_loads(history)
    yield from lost_ranges(history)
    yield from lost_commits(history)
    for reader, received, missed in history.received():
        for number in np.flatnonzero((received == 0) & (missed > 0)).tolist():
            yield f"reader {reader} received nothing of {history.describe(number)}"


def lost_loads(history: IndexedHistory) -> Iterator[str]:
    """Loaded records that are not in the source."""
    source = history.history.source
    loaded = [load.records for load in history.history.loads if load.completion is Completion.OK]
    kept = join([log.records for log in history.source_logs], np.uint64)
    for record in np.setdiff1d(join(loaded, np.uint64), kept):
        yield f"record {record:016x} was loaded and is not in {source}"


def lost_ranges(history: IndexedHistory) -> Iterator[str]:
    """Source records that no committed transaction covers."""
    for log in history.source_logs:
        offsets = np.unique(log.offsets)
        is_covered = np.zeros(len(offsets), bool)
        for each in history.covered.get(log.partition, ()):
            low, high = np.searchsorted(offsets, [each.start, each.end])
            is_covered[low:high] = True
        for offset in offsets[~is_covered]:
            yield f"{log.topic}/{log.partition} offset {offset} is in no committed transaction"


def lost_commits(history: IndexedHistory) -> Iterator[str]:
    """Acknowledged ranges and transactions that are not committed."""
    for run in history.history.runs:
        for committed in run.committed:
            if not history.covers(committed):
                yield f"run {run.run} reported {committed.describe(history.history.source)} as committed"
    for transaction in history.history.transactions:
        if transaction.completion is Completion.OK and transaction.id not in history.committed_ids:
            yield f"the commit of {transaction.id} returned"


def aborted_reads(history: IndexedHistory) -> Iterator[str]:
    for log in history.output_logs:
        written = history.written.get((log.topic, log.partition))
        for offset in np.setdiff1d(log.offsets, written.offsets if written else np.empty(0, np.int64)):
            yield f"reader {log.reader} received {log.topic}/{log.partition} offset {offset}"
    for transaction in history.history.transactions:
        if transaction.completion is Completion.FAILED and transaction.id in history.committed_ids:
            yield f"{transaction.id} was aborted and is committed"


def torn_transactions(history: IndexedHistory) -> Iterator[str]:
    for reader, received, missed in history.received():
        for number in np.flatnonzero((received > 0) & (missed > 0)).tolist():
            counts = f"{received[number]} outputs and read past {missed[number]}"
            yield f"reader {reader} received {counts} of {history.describe(number)}"


def duplicates(history: IndexedHistory) -> Iterator[str]:
    source = history.history.source
    for reader in sorted({log.reader for log in history.source_logs}):
        logs = [log for log in history.source_logs if log.reader == reader]
        records, counts = np.unique(join([log.records for log in logs], np.uint64), return_counts=True)
        for record in records[counts > 1]:
            yield f"record {record:016x} is in {source} more than once"
    for ranges in history.covered.values():
        for one, two in pairwise(ranges):
            if two.start < one.end:
                yield f"{two.describe(source)} was committed after offset {one.end - 1}"
    for reader, topic, origins in history.received_origins():
        rows, counts = np.unique(origins, axis=0, return_counts=True)
        for partition, offset, sequence in rows[counts > 1]:
            yield f"reader {reader} received output {sequence} of {source}/{partition} offset {offset} twice in {topic}"


def nonmonotonic_reads(history: IndexedHistory) -> Iterator[str]:
    for log in history.logs:
        for index in np.flatnonzero(np.diff(log.offsets) <= 0):
            steps = f"offset {log.offsets[index + 1]} after {log.offsets[index]}"
            yield f"reader {log.reader} received {log.topic}/{log.partition} {steps}"
    for (topic, partition), written in history.written.items():
        for source in np.unique(written.origins[:, 0]):
            origins = written.origins[written.origins[:, 0] == source]
            steps = np.diff(origins, axis=0)
            for index in np.flatnonzero((steps[:, 1] < 0) | ((steps[:, 1] == 0) & (steps[:, 2] < 0))):
                place = f"{history.history.source}/{source} offset {origins[index + 1, 1]} after {origins[index, 1]}"
                yield f"{topic}/{partition} holds outputs of {place}"


def inconsistent_offsets(history: IndexedHistory) -> Iterator[str]:
    logs: dict[tuple[str, int], list[PartitionLog]] = defaultdict(list)
    for log in history.logs:
        logs[log.topic, log.partition].append(log)
    for (topic, partition), readers in logs.items():
        offsets = join([log.offsets for log in readers], np.int64)
        records = join([log.records for log in readers], np.uint64)
        pairs = np.unique(np.stack([offsets.astype(np.uint64), records], axis=1), axis=0)
        for offset in pairs[1:, 0][np.diff(pairs[:, 0]) == 0]:
            yield f"{topic}/{partition} offset {offset} was read as two different records"


#: Each kind of anomaly, and the function that finds it.
FINDERS: dict[str, Callable[[IndexedHistory], Iterator[str]]] = {
    "lost_write": lost_writes,
    "aborted_read": aborted_reads,
    "torn_transaction": torn_transactions,
    "duplicate": duplicates,
    "nonmonotonic_read": nonmonotonic_reads,
    "inconsistent_offset": inconsistent_offsets,
}
