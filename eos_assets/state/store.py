"""The state of a stateful pipeline at exactly a position: marks of the ledger in, one DataFrame per store out."""

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eos_assets.declare.pipeline import Pipeline
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.reader import read_partition
from eos_assets.log.ledger import ChangelogOffsets, Genesis, LedgerEntry, changelog_offsets
from eos_assets.log.reader import CommittedReader
from eos_assets.state.changelog import STATE, Store, column_types, decoded, latest, raw, stores
from eos_assets.state.snapshot import Snapshot
from eos_assets.transform.spark_errors import unreadable_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tails = dict[int, Genesis | LedgerEntry | None]


class State:
    """Loads the state of some source partitions. Spark does all of it: no process holds all keys."""

    def __init__(
        self, pipeline: Pipeline, spark: "SparkSession", connection: Connection, snapshot: Snapshot | None = None
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.snapshot = snapshot
        self.stores = stores(pipeline)

    @functools.cached_property
    def columns(self) -> dict[str, str]:
        """The columns of the state and their types, as Spark names them."""
        return column_types(self.spark, self.stores[STATE])

    def check_columns(self, geneses: Iterable[Genesis | None]) -> None:
        """The state is declared as it was when the pipeline began: a column of another name would be read as null."""
        for genesis in geneses:
            before = genesis.state if genesis else None
            if before is not None and before != self.columns:
                raise EosError(
                    f"{self.pipeline.name} began with the state {told(before)}, and is declared with "
                    f"{told(self.columns)}: what its changelog holds would be misread.",
                    f"Declare the former, or begin anew: generation={self.pipeline.generation + 1} with a new sink.",
                )

    def marks(self, tails: Tails) -> dict[int, ChangelogOffsets]:
        """Source partition → changelog → its last offset at the partition's ledger entry."""
        return {p: changelog_offsets(tail, [store.topic for store in self.stores]) for p, tail in tails.items()}

    def at(self, tails: Tails) -> list["DataFrame"]:
        """The state of each store after these ledger entries: partition, key and the declared columns."""
        return [decoded(rows, store) for rows, store in zip(self.values_at(tails), self.stores, strict=True)]

    def values_at(self, tails: Tails) -> list["DataFrame"]:
        """The same as partition, key and value."""
        marks = self.marks(tails)
        known = self.snapshot.usable(tails, marks) if self.snapshot else {}
        return [self.store_at(store, {p: m[store.topic] for p, m in marks.items()}, known) for store in self.stores]

    def store_at(self, store: Store, upto: dict[int, int], known: dict[tuple[int, int], int]) -> "DataFrame":
        """The last value of each key; what a snapshot knows of a partition is not read from the changelog."""
        after = {p: known[p, store.number] for p in upto if (p, store.number) in known}
        rows = raw(self.spark, self.connection, store, upto, after)
        if after and self.snapshot:
            rows = rows.unionByName(self.snapshot.rows(store, list(after)))
        return latest(rows, by_key=store.number == STATE)

    def left_snapshot(self, failure: Exception) -> bool:
        """Whether a job failed of the snapshot; then it is left aside from now on."""
        if self.snapshot is None or self.snapshot.path not in unreadable_path(failure):
            return False
        self.snapshot.leave_aside(failure)
        self.snapshot = None
        return True

    def check(self, tails: Tails) -> None:
        """Refuses a changelog that holds more than the ledger tells of, or less: it would not be the state."""
        marks = self.marks(tails)
        for store in self.stores:
            ends = stable_ends(self.connection, store.topic, sorted(tails))
            for partition, tail in tails.items():
                self.check_partition(store, partition, tail, marks[partition][store.topic], ends[partition])

    def check_partition(
        self, store: Store, partition: int, tail: Genesis | LedgerEntry | None, mark: int, end: int
    ) -> None:
        where = f"{store.topic}/{partition}"
        if mark >= end:
            raise EosError(
                f"{where} ends at {end}, but the state of the last transaction reaches to {mark}.",
                f"The changelog was truncated or made anew: begin a new generation of {self.pipeline.name}.",
            )
        if end <= mark + 2:
            return  # nothing but the end of the transaction that wrote the mark
        more = next(read_partition(self.connection, store.topic, partition, mark + 1, end), None)
        if more is None or self.moved(partition, tail):
            return
        raise EosError(
            f"{where} holds a record at offset {more.offset()}, and no transaction of the ledger wrote it: the state "
            f"of {self.pipeline.name} ends at {mark}.",
            "Somebody else wrote to the changelog, or the ledger lost its end. Restore the ledger, or begin a new "
            "generation; nothing was written.",
        )

    def moved(self, partition: int, tail: Genesis | LedgerEntry | None) -> bool:
        """Whether a newer run has committed meanwhile: then the plan is stale, and its task will say so."""
        reader = CommittedReader(self.connection.config(), self.pipeline.names())
        try:
            return reader.ledger_tail(partition) != tail
        finally:
            reader.close()


def told(columns: dict[str, str]) -> str:
    return "`" + ", ".join(f"{name} {kind}" for name, kind in columns.items()) + "`"


def overlaid(base: "DataFrame", changes: "DataFrame") -> "DataFrame":
    """A state (partition, key, value) after changes of it."""
    from pyspark.sql import functions as f

    frames = [base.withColumn("offset", f.lit(0)), changes.withColumn("offset", f.lit(1))]
    return latest(functools.reduce(lambda one, other: one.unionByName(other), frames))
