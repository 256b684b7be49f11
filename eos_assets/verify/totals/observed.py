"""Totals that Spark adds up while a job reads rows for another purpose."""

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eos_assets.verify.totals.total import UndecidedError, sql_aggregates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

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
