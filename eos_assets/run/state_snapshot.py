"""Brings the snapshot of a state up to the committed position of its pipeline."""

import functools
import time

from eos_assets.kafka.offsets import stable_ends
from eos_assets.log.ledger import LedgerEntry
from eos_assets.run.plan import make_plan
from eos_assets.state.snapshot import COLUMNS, Snapshot
from eos_assets.state.store import State


def update_snapshot(snapshot: Snapshot) -> int:
    """Replace the partitions that moved, in one Delta commit, and return the number of rows of the table. The commit
    carries the sum of the ledger's ends: it rises with every entry, and Delta skips a repeated write."""
    from pyspark.sql import functions as f

    pipeline, spark, connection = snapshot.pipeline, snapshot.spark, snapshot.connection
    taken_ms = int(time.time() * 1000)
    ledger = pipeline.names().ledger
    version = sum(stable_ends(connection, ledger, connection.partitions(ledger)).values())
    state = State(pipeline, spark, connection, snapshot)
    entries = {plan.partition: plan.tail for plan in make_plan(pipeline, connection)}
    moved = {p: e for p, e in entries.items() if isinstance(e, LedgerEntry) and not snapshot.holds(p, e)}
    # Reading the parts also shows whether the table is damaged.
    foreign = any(part.generation != snapshot.generation for part in snapshot.parts)
    fresh = foreign or snapshot.damaged or snapshot.read() is None
    if moved or fresh:
        state.check(dict(moved))
        marks, frames = state.marks(dict(moved)), []
        for store, values in zip(state.stores, state.values_at(dict(moved)), strict=True):
            about = [(p, e.next, marks[p][store.topic], snapshot.generation, taken_ms) for p, e in moved.items()]
            columns = "partition int, position long, changelog_offset long, generation string, taken_ms long"
            known = f.broadcast(spark.createDataFrame(about, columns))
            named = values.withColumn("store", f.lit(store.number)).join(known, "partition")
            frames.append(named.select(*spark.createDataFrame([], COLUMNS).columns))
        rows = functools.reduce(lambda one, other: one.unionByName(other), frames)
        snapshot.write(rows, sorted(moved), version, fresh=fresh)
        del snapshot.parts  # the next look reads them again
    frame = snapshot.read()
    return frame.count() if frame is not None else 0
