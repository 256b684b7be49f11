"""Records that give no output: skipped, dropped by a declared filter, or refused."""

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.options import Batching
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets_tests.run.lab import MakeLab, declare


def test_skips_are_named_and_counted(make_lab: MakeLab) -> None:
    def odd_only(records: DataFrame) -> DataFrame:
        even = f.col("value").cast("string").cast("long") % 2 == 0
        return records.select("key", "value", even.alias("skip"), "origin")

    lab = make_lab(odd_only)
    lab.fill(300)
    report = lab.run()
    assert sum(outcome.skipped for outcome in report.summary()) == 150
    assert sorted(int(v or 0) for v in lab.values()) == list(range(1, 300, 2))
    assert lab.broken() == set()


def test_a_plain_filter_is_refused_unless_it_is_declared(make_lab: MakeLab) -> None:
    def odd_only(records: DataFrame) -> DataFrame:
        return records.where(f.col("value").cast("string").cast("long") % 2 == 1).select("key", "value", "origin")

    lab = make_lab(odd_only)
    lab.fill(300)
    report = lab.run()
    assert not report.complete
    assert "declare drops=True" in report.summary()[0].reason
    assert lab.read() == []
    dropping = lab.with_(drops=True)
    assert dropping.run().complete
    assert sorted(int(v or 0) for v in lab.values()) == list(range(1, 300, 2))
    assert dropping.lag() == 0
    assert dropping.broken() == set()


@pytest.mark.connect
def test_what_a_filter_drops_is_counted_per_transaction_and_proven(make_lab: MakeLab) -> None:
    """Also by an attempt that resumes where another one died; but not after the last row, where no task sees it."""

    def some(records: DataFrame) -> DataFrame:
        return records.where("origin.offset % 10 != 0 and origin.offset < 95").select("key", "value", "origin")

    lab = make_lab(some, partitions=1, drops=True, batching=Batching(records=20))
    lab.fill(100)
    failures = Faults(probability=0.3, seed=4)
    report = lab.run(failures)
    assert report.complete
    assert report.failures or any(entry.task_attempt for entry in report.entries), "some attempt has failed"
    for entry in report.entries[:-1]:
        wanted = sum(offset % 10 == 0 for offset in range(entry.start, entry.next))
        assert (entry.dropped, entry.records_in) == (wanted, entry.next - entry.start - wanted)
    assert report.entries[-1].dropped is None, "no task saw what was dropped after the last row"
    assert lab.broken() == set()
    other = lab.with_(transform=lambda records: some(records).where("origin.offset % 10 != 7"))
    finding = other.verify()["none_missing"]
    assert not finding.holds
    assert "dropped records; running the transform again drops" in finding.examples[0]


def test_a_filter_that_is_not_deterministic_is_refused() -> None:
    with pytest.raises(EosError, match="drops=True and deterministic=False"):
        declare(drops=True, deterministic=False)
