"""The verifier itself (F26): one thing is wrong in the topics, and exactly the right invariants turn red."""

from dataclasses import replace

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as f

from eos_assets_tests.exactly_once.forgery import Output, forge, right
from eos_assets_tests.exactly_once.lab import Lab, MakeLab


@pytest.fixture
def small(make_lab: MakeLab) -> Lab:
    return make_lab(partitions=1)


def test_what_is_right_is_green(small: Lab) -> None:
    forge(small, right())
    assert small.broken() == set()


def test_one_duplicate(small: Lab) -> None:
    outputs = right()
    forge(small, [*outputs, outputs[-1]])
    assert small.broken() == {"no_duplicates", "ordered_within_partition", "values_recompute"}


def test_one_loss(small: Lab) -> None:
    forge(small, [output for output in right() if output.number != 7])
    found = small.verify()
    assert {name for name, finding in found.items() if not finding.holds} == {"none_missing", "values_recompute"}
    assert found["none_missing"].examples == ("source_partition=0, source_offset=7",)


def test_one_swap(small: Lab) -> None:
    outputs = right()
    one = next(o for o in outputs if o.partition == 0)
    other = next(o for o in outputs if o.partition == 0 and o is not one)
    swapped = [other if o is one else one if o is other else o for o in outputs]
    forge(small, swapped)
    assert small.broken() == {"ordered_within_partition"}


def test_one_record_that_nobody_sent(small: Lab) -> None:
    forge(small, [*right(), Output(0, 1, named=False)])
    assert small.broken() >= {"none_invented", "values_recompute"}
    assert small.broken() <= {"none_invented", "values_recompute", "routed_correctly"}
    assert "none_invented" not in small.with_(shared_sink=True).broken()


def test_one_wrong_partition(small: Lab) -> None:
    outputs = right()
    forge(small, [replace(o, partition=(o.partition + 1) % 3) if o.number == 7 else o for o in outputs])
    assert small.broken() == {"routed_correctly"}


def test_one_torn_transaction(small: Lab) -> None:
    """The map and the ledger were committed, one of the outputs was aborted."""
    forge(small, [replace(o, visible=False) if o.number == 7 else o for o in right()])
    assert small.broken() == {"none_missing", "ledger_matches_sink", "values_recompute"}


def test_one_gap_in_the_ledger(small: Lab) -> None:
    forge(small, right(), lambda entry: replace(entry, start=3))
    assert "ledger_tiles_source" in small.broken()


def test_an_aborted_read(small: Lab) -> None:
    """A reader that does not ask for committed data sees the aborted record; the verifier can be made to (S5)."""
    forge(small, [*right(), Output(5, 0, visible=False, named=False)])
    assert small.broken() == set()
    seen = {n for n, finding in small.verify(isolation="read_uncommitted").items() if not finding.holds}
    assert {"none_invented", "values_recompute"} <= seen


def test_a_transaction_that_stays_open(make_lab: MakeLab) -> None:
    """Held open for longer than the timeout of the pipeline."""
    lab = make_lab(partitions=1, transaction_timeout_ms=1500)
    forge(lab, right())
    open_one = Producer(lab.connection.config(transactional_id=f"open-{lab.sink}", transaction_timeout_ms=600_000))
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(lab.sink, b"1", b"1", 0)
    open_one.flush()
    found = lab.verify()
    assert {name for name, finding in found.items() if not finding.holds} == {"no_open_transactions"}
    assert found["no_open_transactions"].examples[0].startswith(f"{lab.sink}/0: open at ")
    open_one.abort_transaction(30)
    assert lab.broken() == set()


def test_a_transform_that_is_no_function_of_one_record_turns_red(make_lab: MakeLab) -> None:
    """Its result depends on where the ranges are cut."""

    def numbered(records):  # type: ignore[no-untyped-def]
        return records.select("key", f.monotonically_increasing_id().cast("string").alias("value"), "origin")

    lab = make_lab(numbered, partitions=1)
    lab.fill(100)
    lab.run(max_records=50)
    lab.run()
    assert "values_recompute" in lab.broken()
    assert not lab.with_(deterministic=False).verify()["values_recompute"].evaluated


def test_duplicates_in_the_source_are_a_warning(small: Lab) -> None:
    small.produce([b"1", b"2", b"2", b"3"])
    assert small.run().complete
    found = small.verify()
    assert {name for name, finding in found.items() if not finding.holds} == {"source_is_unique"}
    assert found["source_is_unique"].severity == "warning"
    assert found["source_is_unique"].examples == ("records=2, business_key=2",)
