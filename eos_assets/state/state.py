"""Loads the state of a stateful pipeline as of its ledger entries."""

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.declare.generation import next_generation
from eos_assets.errors import EosError
from eos_assets.kafka.offsets import stable_ends
from eos_assets.kafka.reader import read_partition
from eos_assets.log.ledger import ChangelogOffsets, Genesis, LedgerEntry, changelog_offsets
from eos_assets.log.reader import CommittedReader
from eos_assets.state.changelog import STATE, Store, column_types, decode, latest_values, read_changelog, stores
from eos_assets.state.snapshot import Snapshot
from eos_assets.transform.spark_errors import unreadable_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Source partition → the last entry of its ledger.
Tails = dict[int, Genesis | LedgerEntry | None]


class State:
    """The state of some source partitions. Spark loads it: no process holds all keys."""

    def __init__(self, context: PipelineContext, snapshot: Snapshot | None = None) -> None:
        self.context = context
        #: Shortens the loading; None without a snapshot, or after it could not be read.
        self.snapshot = snapshot
        self.stores = stores(context.pipeline)

    @functools.cached_property
    def columns(self) -> dict[str, str]:
        """The columns of the state and their types, as Spark names them."""
        return column_types(self.context.spark, self.stores[STATE])

    def check_columns(self, geneses: Iterable[Genesis | None]) -> None:
        """Refuse another state than the pipeline began with: a column of another name would be read as null."""
        for genesis in geneses:
            before = genesis.state if genesis else None
            if before is not None and before != self.columns:
                pipeline = self.context.pipeline
                raise EosError(
                    f"Pipeline {pipeline.name} began with the state {column_list(before)}, and now declares "
                    f"{column_list(self.columns)}: what its changelog holds would be misread.",
                    f"Declare the earlier state again, or {next_generation(pipeline)}.",
                )

    def changelog_offsets(self, tails: Tails) -> dict[int, ChangelogOffsets]:
        """Source partition → changelog → its last offset at the partition's ledger entry."""
        return {p: changelog_offsets(tail, [store.topic for store in self.stores]) for p, tail in tails.items()}

    def load(self, tails: Tails) -> list["DataFrame"]:
        """Load the state of each store after these ledger entries: partition, key and the declared columns."""
        return [decode(rows, store) for rows, store in zip(self.load_values(tails), self.stores, strict=True)]

    def load_values(self, tails: Tails) -> list["DataFrame"]:
        """Load the same as partition, key and value."""
        ends = self.changelog_offsets(tails)
        in_snapshot = self.snapshot.usable_offsets(tails, ends) if self.snapshot else {}
        return [
            self._load_store(store, {p: last[store.topic] for p, last in ends.items()}, in_snapshot)
            for store in self.stores
        ]

    def _load_store(self, store: Store, upto: dict[int, int], in_snapshot: dict[tuple[int, int], int]) -> "DataFrame":
        """The last value of each key. The changelog is read only from where the snapshot of a partition ends."""
        after = {p: in_snapshot[p, store.number] for p in upto if (p, store.number) in in_snapshot}
        rows = read_changelog(self.context, store, upto, after)
        if after and self.snapshot:
            rows = rows.unionByName(self.snapshot.rows(store, list(after)))
        return latest_values(rows, by_key=store.number == STATE)

    def abandon_snapshot(self, failure: Exception) -> bool:
        """Load without the snapshot from now on, if it made a job fail. Returns whether it did."""
        if self.snapshot is None or self.snapshot.path not in unreadable_path(failure):
            return False
        self.snapshot.report_damage(failure)
        self.snapshot = None
        return True

    def check(self, tails: Tails) -> None:
        """Refuse a changelog that holds more than the ledger accounts for, or less: it would be another state."""
        offsets = self.changelog_offsets(tails)
        for store in self.stores:
            ends = stable_ends(self.context.kafka, store.topic, sorted(tails))
            for partition, tail in tails.items():
                self._check_partition(store, partition, tail, offsets[partition][store.topic], ends[partition])

    def _check_partition(
        self, store: Store, partition: int, tail: Genesis | LedgerEntry | None, last: int, end: int
    ) -> None:
        pipeline, place = self.context.pipeline, f"{store.topic}/{partition}"
        if last >= end:
            raise EosError(
                f"{place} ends at offset {end}, but the state of the last transaction reaches to {last}: the changelog "
                "was truncated, or deleted and created again.",
                f"Restore it, or {next_generation(pipeline)}.",
            )
        if end <= last + 2:
            return  # only the marker that ends the transaction that wrote the record at `last`
        unknown = next(read_partition(self.context.kafka, store.topic, partition, last + 1, end), None)
        if unknown is None or self.has_moved(partition, tail):
            return
        raise EosError(
            f"{place} holds a record at offset {unknown.offset()}, and no transaction of the ledger wrote it: the "
            f"state of {pipeline.name} ends at {last}. Another producer wrote to the changelog, or the ledger lost its "
            "last entries. Nothing was written.",
            f"Restore the ledger, or {next_generation(pipeline)}.",
        )

    def has_moved(self, partition: int, tail: Genesis | LedgerEntry | None) -> bool:
        """Whether another run has committed since the plan. Then the plan is stale, and its task reports that."""
        reader = CommittedReader(self.context.kafka.config(), self.context.names)
        try:
            return reader.ledger_tail(partition) != tail
        finally:
            reader.close()


def column_list(columns: dict[str, str]) -> str:
    return "`" + ", ".join(f"{name} {kind}" for name, kind in columns.items()) + "`"


def apply_changes(base: "DataFrame", changes: "DataFrame") -> "DataFrame":
    """A state (partition, key, value) after changes of it."""
    from pyspark.sql import functions as f

    return latest_values(base.withColumn("offset", f.lit(0)).unionByName(changes.withColumn("offset", f.lit(1))))
