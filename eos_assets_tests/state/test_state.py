"""State in the transaction: one of output, state and offsets never without the others."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching, Unique
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.log.ledger import LedgerEntry, changelog_offsets, load
from eos_assets.run.plan import make_plan
from eos_assets.run.preview import preview
from eos_assets.run.state_snapshot import update_snapshot
from eos_assets.sink.resume import GoOn, StalePlan, decide
from eos_assets.state.changelog import Store, decode, encode
from eos_assets.state.snapshot import Snapshot
from eos_assets.state.store import State
from eos_assets_tests.run.background import Background, stopped
from eos_assets_tests.run.lab import Lab, MakeLab
from eos_assets_tests.run.messages import collect_messages
from eos_assets_tests.state.folds import Counts, declare_sliding, folded, sliding
from eos_assets_tests.waiting import wait_for

KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]


def home(key: bytes, partitions: int = 2) -> int:
    return int(partitions_of(pa.array([key], pa.binary()), partitions)[0])


def send(lab: Lab, records: Iterator[tuple[bytes, bytes]] | list[tuple[bytes, bytes]]) -> None:
    producer = Producer(lab.connection.config(partitioner="murmur2_random"))
    for key, value in records:
        producer.produce(lab.source, value, key)
    producer.flush()


def some(count: int, seed: int = 0) -> list[tuple[bytes, bytes]]:
    return [(KEYS[(n * n + seed) % len(KEYS)], b"%d.%d" % (seed, n)) for n in range(count)]


def expected(lab: Lab) -> dict[int, list[tuple[bytes, bytes]]]:
    """What the sink must hold of each source partition, counted in plain Python."""
    counts = {p: Counts() for p in lab.connection.partitions(lab.source)}
    outputs: dict[int, list[tuple[bytes, bytes]]] = {p: [] for p in counts}
    for m in lab.read(lab.source):
        key, partition = m.key() or b"", m.partition() or 0
        outputs[partition].append((key, counts[partition].count(key, m.value() or b"", m.offset() or 0)))
    return outputs


def assert_counted(lab: Lab) -> None:
    wanted = sorted(row for rows in expected(lab).values() for row in rows)
    assert sorted((m.key() or b"", m.value() or b"") for m in lab.read()) == wanted


def entries(lab: Lab) -> list[LedgerEntry]:
    rows = [load(m.value() or b"") for m in lab.read(lab.pipeline.names().ledger)]
    return [row for row in rows if isinstance(row, LedgerEntry)]


def held(lab: Lab, snapshot: Snapshot | None = None) -> list[list[str]]:
    tails = {p.partition: p.tail for p in make_plan(lab.pipeline, lab.connection)}
    state = State(lab.context, snapshot)
    return [sorted(map(str, frame.collect())) for frame in state.load(tails)]


def test_slices_killed_on_the_way_give_what_plain_python_counts_and_every_invariant_holds(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding(batching=Batching(records=40)))
    send(lab, [*some(150), (b"a", b"close"), *some(50, 1)])
    report = lab.run(Faults(probability=0.4, seed=7, failpoint="before_commit", action="exit"), max_attempts=30)
    assert report.complete
    first_job = {entry.task_attempt for entry in report.entries if entry.run_attempt == 1}
    assert 0 not in first_job, "no first attempt of a task has survived"
    assert report.attempts > 1
    assert_counted(lab)
    assert max(entry.next - entry.start for entry in entries(lab)) <= 40, "the plan does the cutting"
    findings = lab.verify()
    assert {n for n, finding in findings.items() if not finding.holds} <= {"source_is_unique"}
    assert "keys, the state of each as folding again gives it" in findings["state_recomputes"].detail
    assert findings["values_recompute"].evaluated
    abort(lab)
    send(lab, some(10, 2))
    shown = preview(lab.pipeline, lab.spark, lab.connection, 10)
    lab.run()
    abort(lab)
    again = preview(lab.pipeline, lab.spark, lab.connection, 10)
    written = {(m.key(), m.value()) for m in lab.read()}
    for some_records in (shown, again):
        assert some_records, "aborted ones hide none"
        outputs = {(bytes(p.source.key), bytes(p.results[0].value)) for p in some_records}
        assert outputs <= written, "what a preview shows comes"


def abort(lab: Lab) -> None:
    """More aborted records in each partition than a preview shows."""
    for partition in lab.connection.partitions(lab.source):
        lab.produce_transaction([b"1"] * 20, commit=False, partition=partition)


def test_a_plan_whose_state_was_loaded_elsewhere_is_stale(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(pipeline=declare_sliding(partitions=1))
    send(lab, some(60))
    zombie = Background(lab, Faults(failpoint="before_init", action="stop", pid_folder=str(tmp_path)))
    pid = stopped(tmp_path)
    try:
        assert lab.run(max_records=30).complete
    finally:
        os.kill(pid, signal.SIGCONT)
    late = zombie.result()
    assert [o.outcome for o in late.outcomes] == ["stale", "committed"]
    assert [(e.start, e.next) for e in entries(lab)] == [(0, 30), (30, 60)]
    assert_counted(lab)


def test_a_state_comes_back_from_its_changelog_as_it_was(spark: SparkSession) -> None:
    kinds = {
        "money": ("decimal(38,2)", "123456789012345678901234567890.25"),
        "moment": ("timestamp", "2026-05-04 09:30:00.123456"),
        "clock": ("timestamp_ntz", "2026-05-04 09:30:00.123456"),
        "day": ("date", "2026-05-04"),
        "ratio": ("double", "0.1"),
        "many": ("array<bigint>", None),
        "nothing": ("string", None),
    }
    store = Store(0, "changelog", ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items()))
    columns = [f.lit(text).cast(kind).alias(name) for name, (kind, text) in kinds.items()]
    state = spark.range(1).select(f.lit(0).alias("partition"), f.lit(b"k").alias("key"), *columns)
    written = state.select("partition", "key", encode(list(kinds)).alias("value"))
    assert decode(written, store).collect() == state.collect()


def test_an_entry_of_before_has_no_state_and_still_loads() -> None:
    old = b'{"v":1,"kind":"entry","pipeline":"p","topic":"s","partition":0,"start":0,"next":5,"records_in":5,'
    old += b'"records_out":5,"skipped":0,"dead":0,"dropped":0,"sinks":[],"run":"r","run_attempt":1,"task_attempt":0,'
    old += b'"code_version":"c","began_ms":0,"ended_ms":0}'
    entry = load(old)
    assert isinstance(entry, LedgerEntry)
    assert (entry.state, entry.repeats) == ((), 0)
    assert changelog_offsets(entry, ["changelog"]) == {"changelog": -1}
    assert load(entry.to_json()) == entry
    stale = decide(ledger=5, group=5, genesis=0, start=0, end=9, exact=True)
    assert isinstance(stale, StalePlan)
    assert decide(ledger=5, group=5, genesis=0, start=5, end=9, exact=True) == GoOn(5)


def test_a_source_that_is_not_keyed_by_the_state_is_refused(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, some(10))
    lab.produce([b"a"], partition=1 - home(b"a"))
    with pytest.raises(EosError, match=r"has a key that belongs to partition"):
        lab.run()
    assert lab.read() == [], "nothing of the job is visible"
    isolating = lab.with_(on_error="isolate")
    lab.produce([b"x"], key=None)
    assert isolating.run().complete
    letters = str([m.headers() for m in lab.read(lab.pipeline.names().dead_letters)])
    assert letters.count("has a key that belongs to partition") == letters.count("has no key") == 1
    assert isolating.broken() == set()
    assert lab.broken() == {"routed_correctly"}, "without the declaration it is a fault of the source"
    with pytest.raises(EosError, match="keeps state"):
        lab.run(mode=Mode.AT_LEAST_ONCE)
    lab.connection.admin.create_partitions([NewPartitions(lab.source, 3)])[lab.source].result()
    wait_for(lambda: len(lab.connection.partitions(lab.source)) == 3)
    with pytest.raises(EosError, match=r"a key moves away from its state[^$]*declare generation=2"):
        lab.run()


def test_a_function_that_breaks_its_contract_writes_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, some(10))

    def with_fold(fold: Any) -> Lab:
        return lab.with_(fold=fold)

    twice = with_fold(lambda r, s: (sliding(r, s)[0], sliding(r, s)[1].unionByName(sliding(r, s)[1])))
    report = twice.run()
    assert not report.complete
    assert "two states of the key" in report.outcomes[-1].reason
    elsewhere = with_fold(lambda r, s: (sliding(r, s)[0], sliding(r, s)[1].withColumn("key", f.lit(b"a"))))
    with pytest.raises(EosError, match="no record of that partition was given to it"):
        elsewhere.run(partitions=[1 - home(b"a")])
    with pytest.raises(EosError, match="as declared"):
        with_fold(lambda r, s: (sliding(r, s)[0], sliding(r, s)[1].selectExpr("key", "1 as offsets"))).run()
    with pytest.raises(EosError, match="instead of outputs and changed state"):
        with_fold(lambda r, s: sliding(r, s)[0]).run()
    assert lab.read() == []
    assert lab.read(lab.pipeline.names().changelog) == []


def shifted(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    outputs, changed = sliding(records, state)
    return outputs, changed.withColumn("offsets", f.transform("offsets", lambda o: o + 1))


def test_a_state_that_is_not_the_fold_is_red_and_a_changelog_that_others_wrote_to_is_refused(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, some(30))
    lab.run()
    assert lab.broken() == set()
    assert lab.with_(fold=shifted).broken() == {"state_recomputes"}
    (other,) = [m for m in lab.read(lab.pipeline.names().changelog) if m.key() == b"b"]
    producer = Producer(lab.connection.config())
    producer.produce(other.topic() or "", other.value(), b"a", home(b"a"))
    producer.flush()
    send(lab, some(5, 1))
    with pytest.raises(EosError, match="no transaction of the ledger wrote it"):
        lab.run()


def test_a_new_generation_begins_with_an_empty_state(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, some(20))
    lab.run()
    following = lab.with_(generation=2, shared_sink=True)
    following.create()
    assert following.run().complete
    assert len(lab.read()) == 40, "everything a second time, on purpose"
    assert following.broken() == set()


def test_a_repeat_within_the_horizon_is_skipped_and_counted(make_lab: MakeLab) -> None:
    """Wherever the ranges are cut, and whether the one before it was a repeat itself or not."""
    unique = {"unique": Unique("value", within=5), "batching": Batching(records=3)}
    lab = make_lab(pipeline=declare_sliding(partitions=1, **unique))
    values = [b"1", b"2", b"1", b"3", b"4", b"5", b"1", b"6", b"7", b"8", b"9", b"10", b"2", b"10"]
    send(lab, [(b"k%d" % (n % 2), value) for n, value in enumerate(values)])
    assert lab.run().complete
    done = entries(lab)
    assert sum(entry.repeats for entry in done) == 3, "the second and third 1 and the second 10; the 2 came too late"
    assert sum(entry.skipped for entry in done) == 3
    assert len(lab.read()) == len(values) - 3
    (seen,) = held(lab)[1:]
    assert len(seen) == 4, "what no later record can repeat is forgotten"
    findings = lab.verify()
    assert {n for n, finding in findings.items() if not finding.holds} == {"source_is_unique"}
    assert findings["source_is_unique"].examples == ("records=2, business_key=2",)


@pytest.mark.connect
def test_a_snapshot_and_the_tail_are_the_state_and_losing_it_loses_nothing(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(pipeline=declare_sliding(unique=Unique("value", within=100)))
    lake = str(tmp_path)
    send(lab, some(40))
    lab.run(lake=lake)
    snapshot = Snapshot(lab.context, lake)
    rows = update_snapshot(lab.context, snapshot)
    assert rows == sum(map(len, held(lab)))
    assert update_snapshot(lab.context, snapshot) == rows
    versions = f"describe history delta.`{snapshot.path}`"
    assert lab.spark.sql(versions).count() == 1, "nothing new adds no version"
    send(lab, [(b"a", b"close"), (b"b", b"new"), (b"g", b"newer")])
    assert lab.run(lake=lake).complete
    fresh = Snapshot(lab.context, lake)
    tails = {p.partition: p.tail for p in make_plan(lab.pipeline, lab.connection)}
    assert len(fresh.usable_offsets(tails, State(lab.context).marks(tails))) == 4
    assert held(lab, fresh) == held(lab), "snapshot and tail give what replaying everything gives"
    assert update_snapshot(lab.context, snapshot) == sum(map(len, held(lab)))
    changed = lab.with_(code_version="another")
    assert not changed.verify()["values_recompute"].evaluated, "what other code wrote cannot be folded again"
    send(lab, some(6, 1))
    assert changed.run(lake=lake).complete
    proof = {finding.name: finding for finding in changed.proof(full=True, lake=lake).findings}
    assert proof["state_recomputes"].evaluated, "it can, from the snapshot on"
    assert proof["state_recomputes"].holds
    assert "lie before the state that is known" in proof["values_recompute"].detail
    lab.spark.sql(f"update delta.`{snapshot.path}` set generation = 'another'")
    send(lab, some(6, 2))
    with collect_messages() as messages:
        assert lab.run(lake=lake).complete
    assert any("another generation: refused" in message for message in messages)
    shutil.rmtree(snapshot.path)
    send(lab, some(6, 3))
    assert lab.run(lake=lake).complete
    assert lab.broken() == set()


def test_a_snapshot_that_is_damaged_is_one_that_is_lost(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(pipeline=declare_sliding())
    lake = str(tmp_path)

    def table() -> Snapshot:
        return Snapshot(lab.context, lake)

    send(lab, some(12))
    assert lab.run(lake=lake).complete
    rows = update_snapshot(lab.context, table())
    for file in Path(table().path).rglob("*.parquet"):
        file.write_bytes(b"PAR1 cut")
    send(lab, some(6, 10))
    with collect_messages() as messages:
        assert lab.run(lake=lake).complete
    assert any("cannot be read, so the changelog is replayed" in message for message in messages)
    assert update_snapshot(lab.context, table()) >= rows, "it is written again"
    assert held(lab, table()) == held(lab)
    for entry in (Path(table().path) / "_delta_log").glob("*.json"):
        entry.write_text("garbage")
    send(lab, some(6, 20))
    assert lab.run(lake=lake).complete
    with pytest.raises(EosError, match="Remove the folder"):
        update_snapshot(lab.context, table())
    assert lab.broken() == set()
    renamed = lab.with_(state=lab.pipeline.state.replace("bigint", "int").replace("long", "int"))
    assert renamed.pipeline.state != lab.pipeline.state
    with pytest.raises(EosError, match="would be misread"):
        renamed.run()


RECORDS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "3", "close"])), min_size=4)


@settings(max_examples=3, database=None)
@given(records=RECORDS, cuts=st.lists(st.integers(1, 20), min_size=1, max_size=2))
def test_it_does_not_matter_where_the_records_are_cut(
    spark: SparkSession, records: list[tuple[str, str]], cuts: list[int]
) -> None:
    """f(f(s, A), B) == f(s, A + B), outputs and state, repeats included."""
    pipeline = declare_sliding(partitions=1, unique=Unique("concat(key, value)", within=3))
    assert folded(pipeline, spark, records, [c for c in cuts if c < len(records)]) == folded(
        pipeline, spark, records, []
    )
