"""What the judges of a proof must know: the topics, and what is looked at in each source partition."""

from dataclasses import dataclass, field

import numpy as np

from eos_assets.verify.sorted_rows import Flags, Integers

#: Of two rows at one place the one that stands for the record itself comes first.
RECORD, NAMED, KEPT = 0, 1, 2


@dataclass(frozen=True)
class Scope:
    """What a proof looks at in one source partition: transactions that start in [start, end), source records from
    `source_start` on, and outputs of the code of today from `same_code` on."""

    start: int
    end: int
    source_start: int
    same_code: int
    #: What was proven before ends here.
    proven: int = 0
    #: Where each transaction begins; only for pipelines that drop records.
    transactions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """What the judges must know."""

    scopes: dict[int, Scope]
    #: The topics by their number: the sinks, then the dead letters.
    topics: list[str]
    #: Partitions of each sink.
    counts: list[int]
    #: Topic number and partition → the last offset of what is no longer provable.
    faded: dict[tuple[int, int], int] = field(default_factory=dict)
    shared_sink: bool = False
    declares_partitions: bool = False
    drops: bool = False
    #: Running the transform again gives the dead letters that are there.
    compares_letters: bool = False
    incremental: bool = False
    #: Source records may vanish by compaction: what came of them is still there, and no longer provable.
    source_is_compacted: bool = False


def lookup(case: Case, partition: Integers, name: str) -> Integers:
    """An offset of the scope of each row's source partition."""
    highest = max([*case.scopes, int(partition.max(initial=-1))], default=-1)
    values = np.zeros(highest + 2, np.int64)  # the last one is of rows without a partition, -1
    for p, scope in case.scopes.items():
        values[p] = getattr(scope, name)
    return values[partition]


def in_scope(case: Case, partition: Integers, start: Integers) -> Flags:
    return (start >= lookup(case, partition, "start")) & (start < lookup(case, partition, "end"))
