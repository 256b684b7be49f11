"""What a proof sees beyond the mutants of the checks: foreign records, aborted ones; a transform of many records."""

import pytest
from pyspark.sql import functions as f

from eos_assets_tests.exactly_once.forgery import Output, forge, right
from eos_assets_tests.exactly_once.lab import Lab, MakeLab


@pytest.fixture
def small(make_lab: MakeLab) -> Lab:
    return make_lab(partitions=1)


def test_one_record_that_nobody_sent(small: Lab) -> None:
    forge(small, [*right(), Output(0, 1, named=False)])
    assert small.broken() >= {"none_invented", "values_recompute"}
    assert small.broken() <= {"none_invented", "values_recompute", "routed_correctly"}
    assert "none_invented" not in small.with_(shared_sink=True).broken()


def test_an_aborted_read(small: Lab) -> None:
    """A reader that does not ask for committed data sees the aborted record; the verifier can be made to (S5)."""
    forge(small, [*right(), Output(5, 0, visible=False, named=False)])
    assert small.broken() == set()
    seen = {n for n, finding in small.verify(isolation="read_uncommitted").items() if not finding.holds}
    assert {"none_invented", "values_recompute"} <= seen


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
