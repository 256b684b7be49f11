"""Totals of records: a count and a sum of hashes. Equal totals on two sides mean equal multisets of records.

The hash is Spark's `xxhash64` over long integers, in NumPy here and in SQL there, so that one side of a comparison can
be added up in the JVM and the other one in a Python worker. docs/decisions/0013 states why a sum suffices.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eos_assets.verify.sorted_rows import Integers

Hashes = npt.NDArray[np.uint64]

SEED = 42
PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


class UndecidedError(Exception):
    """An invariant is violated, or totals cannot decide it: every row has to be compared."""


@dataclass(frozen=True)
class Total:
    """The number of some records and the sum of their hashes modulo 2^64."""

    n: int = 0
    sum: int = 0

    def __add__(self, other: "Total") -> "Total":
        return Total(self.n + other.n, (self.sum + other.sum) % 2**64)


NOTHING = Total()


def total(hashes: Hashes) -> Total:
    return Total(len(hashes), int(hashes.sum(dtype=np.uint64)))


def hash_rows(*columns: Integers | int) -> Hashes:
    """The hash of each row of integers, as Spark's `xxhash64` computes it. A single integer is a column of that value;
    the first column must be an array."""
    hashes: Hashes | np.uint64 = np.uint64(SEED)
    with np.errstate(over="ignore"):
        for column in columns:
            hashes = hash_column(as_unsigned(column), hashes)
    assert isinstance(hashes, np.ndarray)
    return hashes


def as_unsigned(column: Integers | int) -> Hashes | np.uint64:
    return column.view(np.uint64) if isinstance(column, np.ndarray) else np.uint64(column % 2**64)


def hash_column(column: Hashes | np.uint64, seed: Hashes | np.uint64) -> Hashes:
    mixed = seed + (PRIME_5 + np.uint64(8))
    mixed = mixed ^ (rotate(column * PRIME_2, 31) * PRIME_1)
    mixed = rotate(mixed, 27) * PRIME_1 + PRIME_4
    mixed = (mixed ^ (mixed >> np.uint64(33))) * PRIME_2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * PRIME_3
    return mixed ^ (mixed >> np.uint64(32))  # type: ignore[return-value]


def rotate(bits: Hashes | np.uint64, by: int) -> Hashes | np.uint64:
    return (bits << np.uint64(by)) | (bits >> np.uint64(64 - by))


def sql_aggregates(columns: Sequence[str]) -> tuple[str, str]:
    """The sum of the same hashes in SQL, as two sums of 32 bits each, which no number of records makes overflow."""
    hashed = f"xxhash64({', '.join(f'CAST({column} AS bigint)' for column in columns)})"
    return f"sum({hashed} & 4294967295L)", f"sum(shiftrightunsigned({hashed}, 32))"


def of_aggregates(n: int, low: int | None, high: int | None) -> Total:
    return Total(n, ((low or 0) + ((high or 0) << 32)) % 2**64)
