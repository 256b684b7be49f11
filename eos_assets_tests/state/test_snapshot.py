"""Snapshots of a state: they shorten its loading, and losing one loses nothing."""

import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from eos_assets.context import PipelineContext
from eos_assets.declare.options import Unique
from eos_assets.errors import EosError
from eos_assets.run.plan import make_plan
from eos_assets.run.state_snapshot import update_snapshot
from eos_assets.state.snapshot import Part, Snapshot
from eos_assets.state.state import State
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.run.messages import collect_messages
from eos_assets_tests.state.counting import load_state, make_records, send
from eos_assets_tests.state.folds import declare_sliding


def test_a_snapshot_of_another_generation_is_reported_once() -> None:
    """Each job of a run examines the table."""
    nothing = cast(Any, None)  # neither Kafka nor Spark is used
    snapshot = Snapshot(PipelineContext(declare_sliding(), nothing, nothing), "lake")
    snapshot._parts = [Part(0, 0, position=9, changelog_offset=9, generation="another", taken_ms=0)]
    snapshot.generation = "own"
    with collect_messages() as messages:
        assert [snapshot.usable_parts() for _ in range(3)] == [[], [], []]
    (message,) = messages
    assert message.startswith(f"{snapshot.path} is a snapshot of another generation")


@pytest.mark.connect
def test_a_snapshot_and_the_tail_are_the_state_and_losing_it_loses_nothing(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(pipeline=declare_sliding(unique=Unique("value", within=100)))
    lake = str(tmp_path)
    send(lab, make_records(40))
    lab.run(lake=lake)
    snapshot = Snapshot(lab.context, lake)
    rows = update_snapshot(snapshot)
    assert rows == sum(map(len, load_state(lab)))
    assert update_snapshot(snapshot) == rows
    versions = f"describe history delta.`{snapshot.path}`"
    assert lab.spark.sql(versions).count() == 1, "nothing new adds no version"
    send(lab, [(b"a", b"close"), (b"b", b"new"), (b"g", b"newer")])
    assert lab.run(lake=lake).complete
    fresh = Snapshot(lab.context, lake)
    tails = {p.partition: p.tail for p in make_plan(lab.pipeline, lab.connection)}
    assert len(fresh.usable_offsets(tails, State(lab.context).changelog_offsets(tails))) == 4
    assert load_state(lab, fresh) == load_state(lab), "snapshot and tail give what replaying everything gives"
    assert update_snapshot(snapshot) == sum(map(len, load_state(lab)))
    changed = lab.with_(version="another")
    assert not changed.verify()["values_recompute"].evaluated, "what other code wrote cannot be folded again"
    send(lab, make_records(6, 1))
    assert changed.run(lake=lake).complete
    proof = {finding.name: finding for finding in changed.proof(full=True, lake=lake).findings}
    assert proof["state_recomputes"].evaluated, "it can, from the snapshot on"
    assert proof["state_recomputes"].holds
    assert "precede the known state" in proof["values_recompute"].detail
    lab.spark.sql(f"update delta.`{snapshot.path}` set generation = 'another'")
    send(lab, make_records(6, 2))
    with collect_messages() as messages:
        assert lab.run(lake=lake).complete
    assert any("another generation: refused" in message for message in messages)
    shutil.rmtree(snapshot.path)
    send(lab, make_records(6, 3))
    assert lab.run(lake=lake).complete
    assert lab.broken() == set()


def test_a_snapshot_that_is_damaged_is_one_that_is_lost(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(pipeline=declare_sliding())
    lake = str(tmp_path)

    def table() -> Snapshot:
        return Snapshot(lab.context, lake)

    send(lab, make_records(12))
    assert lab.run(lake=lake).complete
    rows = update_snapshot(table())
    for file in Path(table().path).rglob("*.parquet"):
        file.write_bytes(b"PAR1 cut")
    send(lab, make_records(6, 10))
    with collect_messages() as messages:
        assert lab.run(lake=lake).complete
    assert any("cannot be read, so the changelog is replayed" in message for message in messages)
    assert update_snapshot(table()) >= rows, "it is written again"
    assert load_state(lab, table()) == load_state(lab)
    for entry in (Path(table().path) / "_delta_log").glob("*.json"):
        entry.write_text("garbage")
    send(lab, make_records(6, 20))
    assert lab.run(lake=lake).complete
    with pytest.raises(EosError, match="Remove the folder"):
        update_snapshot(table())
    assert lab.broken() == set()
    renamed = lab.with_(state=lab.pipeline.state.replace("bigint", "int").replace("long", "int"))
    assert renamed.pipeline.state != lab.pipeline.state
    with pytest.raises(EosError, match="would be misread"):
        renamed.run()
