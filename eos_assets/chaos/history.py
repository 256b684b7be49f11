"""The history of a soak: what its clients asked for, and what they got. The checker reads nothing else.

An operation has completed (`OK`), has had no effect (`FAILED`), or may have had its effect (`UNKNOWN`): its process was
killed or got no answer. Jepsen calls these ok, fail and info.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from eos_assets.kafka.offsets import OffsetRange

Offsets = npt.NDArray[np.int64]
#: One number for each record: equal records have equal numbers.
Fingerprints = npt.NDArray[np.uint64]


class Completion(StrEnum):
    """What its client knows about an operation."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class TransactionId(NamedTuple):
    """One attempt at one transaction: the ledger entry of a committed one holds the same values."""

    run: str
    run_attempt: int
    task_attempt: int
    partition: int
    start: int


@dataclass(frozen=True)
class LoadOperation:
    """A loader sent these records to the source. Each record of a soak is loaded once."""

    completion: Completion
    records: Fingerprints


@dataclass(frozen=True)
class RunOperation:
    """A run was called, and reported these source ranges as committed."""

    run: str
    completion: Completion
    committed: tuple[OffsetRange, ...] = ()


@dataclass(frozen=True)
class TransactionOperation:
    """A worker began to commit a transaction, and its process learned this about it."""

    id: TransactionId
    completion: Completion


@dataclass(frozen=True)
class ReadOperation:
    """A reader of committed data received every record that it could see in [start, end) of one partition."""

    reader: str
    topic: str
    partition: int
    start: int
    end: int
    offsets: Offsets
    records: Fingerprints


@dataclass(frozen=True)
class Outputs:
    """What a committed transaction wrote to one partition: for each record its offset and its origin."""

    topic: str
    partition: int
    offsets: Offsets
    source_offsets: Offsets
    sequences: Offsets


@dataclass(frozen=True)
class CommittedTransaction:
    """A transaction as the ledger and the provenance maps describe it after the soak."""

    id: TransactionId
    next: int
    outputs: tuple[Outputs, ...]


@dataclass
class History:
    """All operations of a soak, each kind in the order of completion, and what was committed at its end."""

    source: str
    loads: list[LoadOperation] = field(default_factory=list)
    runs: list[RunOperation] = field(default_factory=list)
    transactions: list[TransactionOperation] = field(default_factory=list)
    reads: list[ReadOperation] = field(default_factory=list)
    committed: list[CommittedTransaction] = field(default_factory=list)


def fingerprint(key: bytes | None, value: bytes | None) -> int:
    """A number for a record."""
    return xxhash.xxh3_64_intdigest(repr((key, value)).encode())


def fingerprints(records: Iterable[tuple[bytes | None, bytes | None]]) -> Fingerprints:
    return np.array([fingerprint(key, value) for key, value in records], np.uint64)


def count_operations(history: History) -> dict[str, int]:
    """What a history holds, in numbers."""
    completions = [
        *(load.completion for load in history.loads),
        *(run.completion for run in history.runs),
        *(transaction.completion for transaction in history.transactions),
    ]
    return {
        "records_loaded": sum(len(load.records) for load in history.loads),
        "runs": len(history.runs),
        "transactions_committed": len(history.committed),
        "transactions_aborted": sum(each.completion is Completion.FAILED for each in history.transactions),
        "operations_unknown": completions.count(Completion.UNKNOWN),
        "outputs_committed": sum(len(part.offsets) for each in history.committed for part in each.outputs),
        "records_read": sum(len(read.offsets) for read in history.reads),
    }
