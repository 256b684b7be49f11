"""A stateful pipeline, folded again: from where that can be done, its outputs, and whether the changelogs hold its
state.

The fold is repeated from the genesis with no state, if the source is retained from there on and all of it was written
by the code of today; else from a snapshot; else it is not evaluated, and the reason is told.
"""

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eos_assets.declare.check import Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.kafka.connection import Connection
from eos_assets.kafka.reader import read_partition
from eos_assets.log import ledger
from eos_assets.log.ledger import Genesis, LedgerEntry
from eos_assets.log.ranges import OffsetRange
from eos_assets.state.changelog import decoded, empty, encoded
from eos_assets.state.fold import Folded, Folding
from eos_assets.state.snapshot import Snapshot
from eos_assets.state.store import State, overlaid
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.window import PartitionWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "state_recomputes"


@dataclass(frozen=True)
class Base:
    """From where one source partition is folded again, and the entry that ends it."""

    start: int
    from_snapshot: bool
    tail: LedgerEntry


class StateProof:
    """One proof of one stateful pipeline, within the window of a verification."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: "SparkSession",
        connection: Connection,
        window: Window,
        lake: str | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.connection = connection
        self.window = window
        self.snapshot = Snapshot(pipeline, spark, connection, lake) if lake else None
        self.state = State(pipeline, spark, connection)
        self.partitions = len(connection.partitions(pipeline.source.name))
        #: Source partitions that cannot be folded again, and why.
        self.reasons: dict[int, str] = {}
        self.bases: dict[int, Base] = {}
        #: Partition and offset of the records on which the function raised: they never were part of the fold.
        self.aside: list[tuple[int, int]] = []
        for partition, w in window.partitions.items():
            base = self.base(partition, w)
            if base is not None:
                self.bases[partition] = base
            w.same_code = max(w.same_code, base.start) if base else max(w.end, w.same_code)

    def base(self, partition: int, w: PartitionWindow) -> Base | None:
        """The whole ledger is read for it: what other code wrote long ago is still in the state."""
        genesis: Genesis | None = None
        tail: LedgerEntry | None = None
        other_code = 0
        for message in read_partition(self.connection, self.pipeline.names().ledger, partition):
            row = ledger.read(message)
            if isinstance(row, Genesis):
                genesis = genesis or row
            elif row.next <= w.end:
                tail = row
                self.aside += [(partition, row.start)] * row.isolated
                other_code = row.next if row.code_version != self.pipeline.code_version else other_code
        if tail is None or genesis is None:
            return None  # nothing is written yet
        if not other_code and genesis.start >= w.log_start:
            return Base(genesis.start, False, tail)
        for part in self.snapshot.fitting() if self.snapshot else []:
            if part.partition == partition and max(other_code, w.log_start) <= part.position <= w.end:
                return Base(part.position, True, tail)
        self.reasons[partition] = (
            "its state was made by other code, and there is no snapshot of it"
            if other_code
            else f"the source begins at {w.log_start}, the pipeline at {genesis.start}, and there is no snapshot"
        )
        return None

    @property
    def ranges(self) -> list[OffsetRange]:
        """The source records that are folded again."""
        return [OffsetRange(p, b.start, b.tail.next) for p, b in sorted(self.bases.items()) if b.start < b.tail.next]

    def again(self, records: "DataFrame") -> Folded:
        """The fold of all those records."""
        from pyspark.sql import functions as f

        lenient = replace(self.pipeline, on_error="isolate")  # a proof tells what is wrong, and does not stop at it
        for partition, offset in self.aside:
            here = (f.col("origin.partition") == partition) & (f.col("origin.offset") == offset)
            records = records.where(~here)
        return Folding(lenient, self.partitions, self.ranges).fold(
            records, [decoded(rows, s) for rows, s in zip(self.begun, self.state.stores, strict=True)]
        )

    @functools.cached_property
    def begun(self) -> list["DataFrame"]:
        """The state where the fold begins: nothing, or what a snapshot holds."""
        chosen = [p for p, base in self.bases.items() if base.from_snapshot]
        if chosen and self.snapshot:
            return [self.snapshot.rows(store, chosen).drop("offset") for store in self.state.stores]
        none = "partition int, key binary, value binary"
        return [self.spark.createDataFrame([], none) for _ in self.state.stores]

    def unknown(self) -> str:
        """Why some partitions are left out; empty if none is."""
        return "; ".join(f"partition {p}: {reason}" for p, reason in sorted(self.reasons.items()))

    def state_recomputes(self, records: "DataFrame | None") -> Finding:
        """The state that the changelogs hold at the ledger's position is the one that folding again gives."""
        from pyspark.sql import functions as f

        note = f"; left out: {self.unknown()}" if self.reasons else ""
        if not self.bases:
            told = f"not evaluated: {self.unknown()}" if self.reasons else "no state yet"
            return Finding(NAME, True, told, evaluated=not self.reasons)
        held = self.state.values_at({p: base.tail for p, base in self.bases.items()})
        changes = self.again(records).changes if records is not None else [empty_changes(self.spark)] * len(held)
        frames = []
        for store, now, base, changed in zip(self.state.stores, held, self.begun, changes, strict=True):
            names = empty(self.spark, store).columns[2:]
            for sign, values in ((-1, now), (1, overlaid(base, changed))):
                whole = decoded(values, store).select("partition", "key", encoded(names).alias("value"))
                frames.append(whole.select(f.lit(store.topic).alias("topic"), "*", f.lit(sign).alias("n")))
        rows = functools.reduce(lambda one, other: one.unionByName(other), frames)
        content = f.struct("n", f.col("value").cast("string").alias("value"))
        keys = rows.groupBy("topic", "partition", "key").agg(
            f.sum(f.when(f.col("n") < 0, f.xxhash64("value"))).alias("held"),
            f.sum(f.when(f.col("n") > 0, f.xxhash64("value"))).alias("again"),
            f.min(content)["value"].alias("value"),
        )
        figures = keys.agg(
            f.count("*").alias("n"), f.count_if(~f.col("held").eqNullSafe(f.col("again"))).alias("wrong")
        ).first()
        assert figures is not None
        if not figures.wrong:
            return Finding(NAME, True, f"{figures.n:,} keys, the state of each as folding again gives it{note}")
        if any(self.state.moved(p, base.tail) for p, base in self.bases.items()):
            return Finding(NAME, True, "not evaluated: a run went on meanwhile", evaluated=False)
        wrong = keys.where(~f.col("held").eqNullSafe(f.col("again"))).orderBy("topic", "partition", "key")
        examples = tuple(
            f"{row.topic}/{row.partition}: key {bytes(row.key)!r} {kind(row.held, row.again)}: {row.value}"
            for row in wrong.limit(SHOWN).collect()
        )
        return Finding(NAME, False, f"{figures.wrong} keys have another state than folding again gives{note}", examples)


def kind(held: int | None, again: int | None) -> str:
    if held is None:
        return "is missing"
    return "should not be there" if again is None else "has another state"


def empty_changes(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([], "partition int, key binary, value binary")
