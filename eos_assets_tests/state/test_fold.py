"""The contract of a fold: its records, its result, its repeats, and that cuts do not matter."""

from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Batching, Unique
from eos_assets.errors import EosError
from eos_assets_tests.run.lab import Lab, MakeLab
from eos_assets_tests.state.counting import entries, home, load_state, make_records, send
from eos_assets_tests.state.folds import declare_sliding, folded, sliding
from eos_assets_tests.waiting import wait_for


def test_a_source_that_is_not_keyed_by_the_state_is_refused(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, make_records(10))
    lab.produce([b"a"], partition=1 - home(b"a"))
    with pytest.raises(EosError, match=r"has a key that belongs to partition"):
        lab.run()
    assert lab.read() == [], "nothing of the job is visible"
    isolating = lab.with_(on_error="isolate")
    lab.produce([b"x"], key=None)
    assert isolating.run().complete
    letters = lab.read(lab.pipeline.names().dead_letters)
    reasons = str([dict(letter.headers() or [])["eos.error"] for letter in letters])
    assert reasons.count("has a key that belongs to partition") == reasons.count("has no key") == 1
    assert isolating.broken() == set()
    assert lab.broken() == {"routed_correctly"}, "without the declaration the source is wrong"
    with pytest.raises(EosError, match="keeps state"):
        lab.run(mode=Mode.AT_LEAST_ONCE)
    lab.connection.admin.create_partitions([NewPartitions(lab.source, 3)])[lab.source].result()
    wait_for(lambda: len(lab.connection.partitions(lab.source)) == 3)
    with pytest.raises(EosError, match=r"a key moves away from its state[^$]*declare generation=2"):
        lab.run()


def test_a_function_that_breaks_its_contract_writes_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(pipeline=declare_sliding())
    send(lab, make_records(10))

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
    (seen,) = load_state(lab)[1:]
    assert len(seen) == 4, "what no later record can repeat is forgotten"
    findings = lab.verify()
    assert {n for n, finding in findings.items() if not finding.holds} == {"source_is_unique"}
    assert findings["source_is_unique"].examples == ("records=2, business_key=2",)


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
