"""Brings the snapshot of a state up to the committed position of its pipeline."""

import time
from typing import TYPE_CHECKING

from eos_assets.context import PipelineContext
from eos_assets.kafka.offsets import stable_ends
from eos_assets.log.ledger import LedgerEntry
from eos_assets.run.plan import make_plan
from eos_assets.state.fold import unite
from eos_assets.state.snapshot import COLUMNS, Snapshot
from eos_assets.state.state import State, Tails

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def update_snapshot(snapshot: Snapshot) -> int:
    """Replace the partitions that moved, in one Delta commit, and return the number of rows of the table."""
    context = snapshot.context
    taken_ms = int(time.time() * 1000)
    version = snapshot_version(context)
    entries = {plan.partition: plan.tail for plan in make_plan(context.pipeline, context.kafka)}
    moved = {p: e for p, e in entries.items() if isinstance(e, LedgerEntry) and not snapshot.holds(p, e)}
    # Reading the parts also shows whether the table is damaged.
    other_generation = any(part.generation != snapshot.generation for part in snapshot.parts)
    whole_table = other_generation or snapshot.damaged or snapshot.read() is None
    if moved or whole_table:
        state = State(context, snapshot)
        state.check(dict(moved))
        rows = snapshot_rows(state, moved, snapshot.generation, taken_ms)
        snapshot.write(rows, sorted(moved), version, whole_table=whole_table)
    frame = snapshot.read()
    return frame.count() if frame is not None else 0


def snapshot_version(context: PipelineContext) -> int:
    """The sum of the ledger's ends: it rises with every entry, and Delta skips a write that is repeated."""
    ledger = context.names.ledger
    return sum(stable_ends(context.kafka, ledger, context.kafka.partitions(ledger)).values())


def snapshot_rows(state: State, entries: dict[int, LedgerEntry], generation: str, taken_ms: int) -> "DataFrame":
    """The rows of the table for some partitions: the values of each store, and the position that they belong to."""
    from pyspark.sql import functions as f

    spark, tails = state.context.spark, Tails(entries)
    offsets, frames = state.changelog_offsets(tails), []
    for store, values in zip(state.stores, state.load_values(tails), strict=True):
        places = [(p, e.next, offsets[p][store.topic], generation, taken_ms) for p, e in entries.items()]
        columns = "partition int, position long, changelog_offset long, generation string, taken_ms long"
        positions = f.broadcast(spark.createDataFrame(places, columns))
        located = values.withColumn("store", f.lit(store.number)).join(positions, "partition")
        frames.append(located.select(*spark.createDataFrame([], COLUMNS).columns))
    return unite(frames)
