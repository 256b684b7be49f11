"""Source records with very many outputs, and transforms that keep the writer waiting."""

import threading
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from eos_assets.declare.options import Batching
from eos_assets.experiment.faults import Faults
from eos_assets_tests.run.lab import MakeLab

SCHEMA = "key string, value string, origin struct<partition:int,offset:bigint,ordinal:bigint>, content_digest string"


def spread(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A record "rows/seconds" waits for these seconds, like a request to a slow service, and returns these rows."""
    for batch in batches:
        for value, origin in zip(batch["value"].to_pylist(), batch["origin"], strict=True):
            rows, _, seconds = value.decode().partition("/")
            threading.Event().wait(float(seconds or 0))
            for low in range(0, int(rows), 10_000):
                numbers = pa.array(np.arange(low, min(low + 10_000, int(rows)))).cast(pa.string())
                digests = [f"sha256:{rows}" if low == n == 0 else None for n in range(len(numbers))]
                origins = pa.array([origin.as_py()] * len(numbers), batch["origin"].type)
                yield pa.record_batch(
                    [numbers, numbers, origins, pa.array(digests, pa.string())],
                    names=["key", "value", "origin", "content_digest"],
                )


def spreading(records: DataFrame) -> DataFrame:
    return records.select("value", "origin").mapInArrow(spread, SCHEMA)


def test_a_transaction_never_waits_for_a_slow_look_up_until_it_times_out(make_lab: MakeLab) -> None:
    """During the first wait an open transaction holds complete records, during the second an incomplete one."""
    lab = make_lab(spreading, partitions=1, deterministic=False, batching=Batching(timeout_ms=2000))
    lab.produce([b"20000", b"20001", b"60001/3", b"10001/3", b"1"], key=None)
    report = lab.run(max_attempts=1)
    assert report.complete, report.failures
    assert {entry.task_attempt for entry in report.entries} == {0}, "no attempt was lost to the timeout"
    assert sum(entry.records_out for entry in report.entries) == 110_004
    assert lab.broken() == set()


def test_digests_of_what_a_transform_fetched_are_in_the_ledger(make_lab: MakeLab) -> None:
    lab = make_lab(spreading, partitions=1, deterministic=False, batching=Batching(records=2))
    lab.produce([b"1", b"3", b"10001"])
    report = lab.run(max_attempts=1)
    assert report.complete, (report.failures, report.summary())
    files: dict[str, str] = {}
    for entry in report.entries:
        assert all(entry.start <= int(offset) < entry.next for offset in entry.files)
        files |= entry.files
    assert files == {"0": "sha256:1", "1": "sha256:3", "2": "sha256:10001"}


@pytest.mark.timeout(300)
def test_a_million_outputs_of_one_record_appear_together_after_a_crash(make_lab: MakeLab) -> None:
    lab = make_lab(spreading, partitions=1, deterministic=False, batching=Batching(records=10_000))
    lab.produce([b"5", b"1000000", b"7"])
    report = lab.run(Faults(failpoint="mid_produce", action="exit"))
    assert report.complete
    assert [outcome.task_attempt for outcome in report.outcomes] == [1], "the first attempt has died"
    (wide,) = [entry for entry in report.entries if entry.records_out >= 1_000_000]
    assert wide.records_in <= 2
    found: dict[int | None, list[int]] = {}
    for message in lab.read():
        found.setdefault(message.partition(), []).append(int(message.value() or b"-1"))
    many = [n for values in found.values() for n in values]
    assert sorted(many) == sorted([*range(5), *range(1_000_000), *range(7)])
    assert lab.broken() == set()
