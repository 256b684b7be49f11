"""A state in its changelog."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from eos_assets.log.ledger import LedgerEntry, changelog_offsets, load
from eos_assets.sink.resume import GoOn, StalePlan, decide
from eos_assets.state.changelog import Store, decode, encode


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


def test_an_entry_of_an_earlier_version_has_no_state_and_still_loads() -> None:
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
