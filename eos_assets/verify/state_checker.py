"""Compare the state in the changelogs with the one that folding the source again gives."""

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.declare.check import Finding
from eos_assets.state.changelog import decode, empty_state, encode
from eos_assets.state.fold import Folded, Folding
from eos_assets.state.snapshot import Snapshot
from eos_assets.state.state import State, apply_changes
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.state_replay import StateReplay
from eos_assets.verify.topic_frames import union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "state_recomputes"
#: A state that is not decoded yet.
VALUES = "partition int, key binary, value binary"


@dataclass(frozen=True)
class StateChecker:
    """Folds the source of one window again, from the starts of `replay`."""

    context: PipelineContext
    replay: StateReplay
    snapshot: Snapshot | None

    @functools.cached_property
    def state(self) -> State:
        return State(self.context)

    def fold(self, records: "DataFrame") -> Folded:
        """Fold all those records."""
        from pyspark.sql import functions as f

        lenient = replace(self.context.pipeline, on_error="isolate")  # a proof reports what is wrong and goes on
        for partition, offset in self.replay.isolated:
            here = (f.col("origin.partition") == partition) & (f.col("origin.offset") == offset)
            records = records.where(~here)
        count = len(self.context.kafka.partitions(lenient.source.name))
        loaded = [decode(rows, store) for rows, store in zip(self.base, self.state.stores, strict=True)]
        return Folding(lenient, count, self.replay.ranges).fold(records, loaded)

    @functools.cached_property
    def base(self) -> list["DataFrame"]:
        """The state of each store at the start of the fold: empty, or from a snapshot."""
        chosen = [p for p, start in self.replay.starts.items() if start.from_snapshot]
        if chosen and self.snapshot:
            return [self.snapshot.rows(store, chosen).drop("offset") for store in self.state.stores]
        return [self.context.spark.createDataFrame([], VALUES) for _ in self.state.stores]

    def state_recomputes(self, records: "DataFrame | None") -> Finding:
        """The state that the changelogs hold at the ledger's position is the one that folding again gives."""
        omissions, starts = self.replay.omissions, self.replay.starts
        if not starts:
            return Finding(
                NAME, True, f"not evaluated: {omissions}" if omissions else "no state yet", evaluated=not omissions
            )
        note = f"; left out: {omissions}" if omissions else ""
        keys = self.compare(records)
        total, wrong = count_keys(keys)
        if not wrong:
            return Finding(NAME, True, f"{total:,} keys, the state of each as folding again gives it{note}")
        if any(self.state.has_moved(p, start.tail) for p, start in starts.items()):
            return Finding(NAME, True, "not evaluated: a run has committed meanwhile", evaluated=False)
        return Finding(NAME, False, f"{wrong} keys have another state than folding again gives{note}", examples(keys))

    def compare(self, records: "DataFrame | None") -> "DataFrame":
        """One row per key: the hash of its state in the changelogs, and of the one that folding again gives."""
        from pyspark.sql import functions as f

        held = self.state.load_values({p: start.tail for p, start in self.replay.starts.items()})
        unchanged = [self.context.spark.createDataFrame([], VALUES)] * len(held)
        changes = self.fold(records).changes if records is not None else unchanged
        frames = []
        for store, now, base, changed in zip(self.state.stores, held, self.base, changes, strict=True):
            names = empty_state(self.context.spark, store).columns[2:]
            for sign, values in ((-1, now), (1, apply_changes(base, changed))):
                whole = decode(values, store).select("partition", "key", encode(names).alias("value"))
                frames.append(whole.select(f.lit(store.topic).alias("topic"), "*", f.lit(sign).alias("n")))
        content = f.struct("n", f.col("value").cast("string").alias("value"))
        return (
            union(frames)
            .groupBy("topic", "partition", "key")
            .agg(
                f.sum(f.when(f.col("n") < 0, f.xxhash64("value"))).alias("held"),
                f.sum(f.when(f.col("n") > 0, f.xxhash64("value"))).alias("recomputed"),
                f.min(content)["value"].alias("value"),
            )
        )


def count_keys(keys: "DataFrame") -> tuple[int, int]:
    """The number of keys, and of those whose states differ."""
    from pyspark.sql import functions as f

    differs = ~f.col("held").eqNullSafe(f.col("recomputed"))
    counts = keys.agg(f.count("*").alias("n"), f.count_if(differs).alias("wrong")).first()
    assert counts is not None
    return counts.n, counts.wrong


def examples(keys: "DataFrame") -> tuple[str, ...]:
    from pyspark.sql import functions as f

    wrong = keys.where(~f.col("held").eqNullSafe(f.col("recomputed"))).orderBy("topic", "partition", "key")
    return tuple(
        f"{row.topic}/{row.partition}: key {bytes(row.key)!r} {difference(row.held, row.recomputed)}: {row.value}"
        for row in wrong.limit(SHOWN).collect()
    )


def difference(held: int | None, recomputed: int | None) -> str:
    if held is None:
        return "is missing"
    return "should not be there" if recomputed is None else "has another state"
