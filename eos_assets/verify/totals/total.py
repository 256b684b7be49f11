"""Totals: counts and sums of hashes, added up by NumPy, by Spark and by the passes over a topic."""

import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eos_assets.log.digest import PRIME_1, PRIME_4, PRIME_5, SEED, Hashes, finish, mix, rotate
from eos_assets.verify.sorted_rows import Integers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


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
    mixed = (seed + (PRIME_5 + np.uint64(8))) ^ mix(column)  # type: ignore[arg-type]
    return finish(rotate(mixed, 27) * PRIME_1 + PRIME_4)


def sql_aggregates(columns: Sequence[str]) -> tuple[str, str]:
    """The sum of the same hashes in SQL, as two sums of 32 bits each, which no number of records makes overflow."""
    hashed = f"xxhash64({', '.join(f'CAST({column} AS bigint)' for column in columns)})"
    return f"sum({hashed} & 4294967295L)", f"sum(shiftrightunsigned({hashed}, 32))"


def of_aggregates(n: int, low: int | None, high: int | None) -> Total:
    return Total(n, ((low or 0) + ((high or 0) << 32)) % 2**64)


PASS_RESULTS = pa.schema([("kind", pa.string()), ("text", pa.string())])

#: A kind and its values.
PassResult = tuple[str, Sequence[Any]]
#: Kind → the values of each row of it.
PassResults = defaultdict[str, list[list[Any]]]


def result_batch(rows: Iterable[PassResult]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"kind": kind, "text": json.dumps(values)} for kind, values in rows], PASS_RESULTS
    )


def add_results(results: PassResults, tables: Iterable[pa.RecordBatch | pa.Table]) -> None:
    """Decode what passes returned, and add it to the results of its kind."""
    for table in tables:
        for row in table.to_pylist():
            results[row["kind"]].append(json.loads(row["text"]))


#: The values of one total: the number of rows, and the two halves of the sum of their hashes.
FIGURES = ("n", "low", "high")
#: Spark reports the values some milliseconds after the job.
REPORT_SECONDS = 10.0


class ObservedTotals:
    """The totals of one job, by kind."""

    def __init__(self) -> None:
        self._observations: dict[str, Observation] = {}

    def __contains__(self, kind: str) -> bool:
        return kind in self._observations

    def clear(self) -> None:
        """Forget the totals of a job that failed, or of a plan that is not used."""
        self._observations.clear()

    def observe(self, rows: "DataFrame", kind: str, columns: Sequence[str]) -> "DataFrame":
        """The same rows; when a job has read them, their total is known."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        observation = self._observations[kind] = Observation()
        aggregates = zip(FIGURES, ("count(*)", *sql_aggregates(columns)), strict=True)
        return rows.observe(observation, *(f.expr(aggregate).alias(name) for name, aggregate in aggregates))

    def consume(self, rows: "DataFrame", kind: str, columns: Sequence[str]) -> "DataFrame":
        """No rows, in the columns of a pass: these are read for their total alone, so no task waits for the others."""
        nothing = self.observe(rows, kind, columns).where("o_offset < 0")
        return nothing.selectExpr("CAST(NULL AS string) AS kind", "CAST(NULL AS string) AS text")

    def values(self) -> dict[str, list[int]]:
        """The values of each total, after the job."""
        return {kind: read_values(observation) for kind, observation in self._observations.items()}


def read_values(observation: "Observation") -> list[int]:
    """The values of one total. PySpark waits for them without a limit, and an optimizer may leave out what returns no
    row."""
    values: list[int] = []

    def get() -> None:
        with contextlib.suppress(Exception):  # of Spark Connect, which does not wait
            values.extend(observation.get[name] for name in FIGURES)

    thread = threading.Thread(target=get, daemon=True)
    thread.start()
    thread.join(REPORT_SECONDS)
    if len(values) < len(FIGURES):
        raise UndecidedError("rows that Spark has not counted")
    return values
