"""Records that make a transform raise stop the run or are isolated, and no other record is isolated."""

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.kafka.producer import Producer as ColumnProducer
from eos_assets.run.poison_records import first_poison
from eos_assets.run.preview import preview
from eos_assets_tests.run.lab import MakeLab, raising


class Rows:
    """A DataFrame, as far as the search for a record uses one."""

    def __init__(self, raised: str | None) -> None:
        self.raised = raised
        self.write = self

    def format(self, _: str) -> "Rows":
        return self

    mode = format

    def save(self) -> None:
        if self.raised:
            raise ValueError(self.raised)


@given(st.integers(0, 10**6), st.integers(1, 1000), st.sets(st.integers(0, 999), max_size=3), st.booleans())
def test_halving_a_range_finds_the_first_record_that_raises(
    start: int, size: int, places: set[int], from_start: bool
) -> None:
    raising_at = sorted(start + place for place in places if place < size)

    def transform(part: OffsetRange) -> Any:
        assert part.start == start or not from_start
        first = next((offset for offset in raising_at if part.start <= offset < part.end), None)
        return Rows(None if first is None else f"raised at {first}")

    poison = first_poison(transform, OffsetRange(0, start, start + size), from_start=from_start)
    if not raising_at:
        assert poison is None
        return
    assert poison is not None
    assert poison.range == OffsetRange(0, raising_at[0], raising_at[0] + 1)
    assert poison.reason.endswith(f"raised at {raising_at[0]}")


def test_a_record_that_makes_the_transform_raise_stops_by_default(make_lab: MakeLab) -> None:
    lab = make_lab(raising, partitions=1)
    lab.produce([b"1", b"x", b"3"])
    with pytest.raises(EosError, match=r"raises on \S+/0 offset 1: .*CAST_INVALID_INPUT"):
        lab.run()
    with pytest.raises(EosError, match=r"raises: .*CAST_INVALID_INPUT"):
        preview(lab.pipeline, lab.spark, lab.connection, 3)
    assert lab.read() == []


@pytest.mark.connect
def test_a_record_that_makes_the_transform_raise_may_be_isolated(
    make_lab: MakeLab, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lab = make_lab(raising, partitions=1, on_error="isolate", max_isolated=2)
    lab.produce([b"%d" % n for n in range(10)])
    # The content of a record decides nothing.
    poison = b"Python worker exited unexpectedly\norg.apache.kafka.common.errors.TopicAuthorizationException: x"
    lab.produce([poison])
    lab.produce([b"%d" % n for n in range(11, 20)])
    assert lab.run().complete
    assert sorted(int(v or 0) for v in lab.values()) == [n for n in range(20) if n != 10]
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert letter.value() == poison
    assert "CAST_INVALID_INPUT" in str(dict(letter.headers() or [])["eos.error"])
    assert lab.lag() == 0
    assert lab.broken() == set(), "running the transform again leaves out what it raises on"
    lab.produce([b"a", b"b", b"c"])
    caplog.set_level(logging.INFO, "eos_assets")
    with pytest.raises(EosError, match="max_isolated"):
        lab.run()
    committed = [vars(record)["range"] for record in caplog.records if vars(record).get("event") == "commit"]
    assert committed == ["[20, 21)", "[21, 22)"], "what was committed before the refusal is logged, too"
    assert "at org.apache.spark" not in "".join(capfd.readouterr()), "no stack trace of Spark is shown"


@pytest.mark.parametrize("drops", [False, True], ids=["skip", "filter"])
def test_a_proof_holds_with_records_that_make_a_skip_or_a_filter_raise(make_lab: MakeLab, drops: bool) -> None:
    def odd_only(records: DataFrame) -> DataFrame:
        even = f.col("value").cast("string").cast("long") % 2 == 0
        if drops:
            return records.where(~even).select("key", "value", "origin")
        return records.select("key", "value", even.alias("skip"), "origin")

    lab = make_lab(odd_only, partitions=1, on_error="isolate", drops=drops)
    lab.produce([b"1", b"2", b"poison", b"3", b"4"])
    assert lab.run().complete
    assert sorted(v or b"" for v in lab.values()) == [b"1", b"3"]
    assert lab.values(lab.pipeline.names().dead_letters) == [b"poison"]
    assert lab.broken() == set()


def test_failures_while_a_record_is_isolated_are_failed_attempts(make_lab: MakeLab) -> None:
    """Every task of the first attempt to write what is before the record fails; the next attempt goes on."""
    lab = make_lab(raising, partitions=1, on_error="isolate")
    lab.produce([b"1", b"2", b"x", b"4"])
    seed = next(s for s in range(1000) if all(Faults(0.7, s).strikes(0, 0, 1, task) for task in range(4)))
    report = lab.run(Faults(0.7, seed))
    assert report.complete
    assert any(failure == "injected into partition 0 at offset 0" for failure in report.failures)
    assert sorted(v or b"" for v in lab.values()) == [b"1", b"2", b"4"]
    assert lab.values(lab.pipeline.names().dead_letters) == [b"x"]
    assert lab.broken() == set()


def test_a_temporary_failure_makes_no_dead_letter(make_lab: MakeLab, tmp_path: Path) -> None:
    """The function raises a few times, whatever the record: the search for the record must end without one."""
    flags = tmp_path

    def flaky(value: bytes) -> bytes:
        raised = len(list(flags.iterdir()))
        if raised < 8:  # the first job and the first try of the range, each with four attempts
            (flags / str(raised)).touch()
            raise TimeoutError("the service does not answer")
        return value

    call = f.udf(flaky, "binary")
    lab = make_lab(lambda r: r.select("key", call("value").alias("value"), "origin"), partitions=1, on_error="isolate")
    lab.produce([b"1", b"2", b"3"])
    assert lab.run().complete
    assert len(list(flags.iterdir())) == 8
    assert lab.values(lab.pipeline.names().dead_letters) == []
    assert sorted(v or b"" for v in lab.values()) == [b"1", b"2", b"3"]


def test_a_record_that_was_left_out_is_reported_and_not_isolated(make_lab: MakeLab) -> None:
    def leaving_out(records: DataFrame) -> DataFrame:
        return raising(records.where("cast(value as string) != '4'"))

    lab = make_lab(leaving_out, partitions=1, on_error="isolate")
    lab.produce([*(b"%d" % n for n in range(6)), b"x"])
    report = lab.run()
    assert not report.complete
    (row,) = report.summary()
    assert row.outcome == "failed"
    assert "left out 1 record" in row.reason
    assert lab.values(lab.pipeline.names().dead_letters) == []
    assert lab.values() == []


@pytest.mark.parametrize("on_error", ["stop", "isolate"])
def test_a_module_that_the_tasks_lack_isolates_no_record(make_lab: MakeLab, on_error: str) -> None:
    def lacking(records: DataFrame) -> DataFrame:
        @f.udf("string")
        def fetched(value: bytes) -> str:
            import a_module_that_is_nowhere  # type: ignore[import-not-found]

            return str(a_module_that_is_nowhere.of(value))

        return records.select("key", fetched("value").alias("value"), "origin")

    lab = make_lab(lacking, partitions=1, on_error=on_error)
    lab.produce([b"1", b"2"])
    with pytest.raises(EosError, match=r"(?s)a_module_that_is_nowhere.*EOS_PY_FILES"):
        lab.run()
    assert lab.values(lab.pipeline.names().dead_letters) == []


def test_a_dead_letter_is_written_although_its_headers_cannot_be_read(make_lab: MakeLab) -> None:
    """The Python client raises on a header whose name is not UTF-8; the C library writes it as it is."""
    lab = make_lab(partitions=1)
    lab.produce([b"1"])
    producer = ColumnProducer(lab.connection.config())
    producer.produce(lab.source, 0, b"k", b"no number", [(Bytes(), b"v")])
    producer.flush(30)
    producer.close()
    lab.produce([b"3"])
    assert lab.run().complete
    (letter,) = lab.read(lab.pipeline.names().dead_letters)
    assert letter.value() == b"no number"
    headers = dict(letter.headers() or [])
    assert headers["eos.error"] == b"no integer"
    assert headers["eos.headers"] == b"left out: a header key is not valid UTF-8"
    assert lab.broken() == set()


class Bytes(str):
    """A name whose bytes are not UTF-8."""

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"
