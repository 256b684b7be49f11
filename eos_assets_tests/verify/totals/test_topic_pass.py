"""A pass over a partition reads it once and adds up what its records, and what the function makes of them, are."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eos_assets as eos
from eos_assets.audit.record_reader import digest
from eos_assets.kafka.message_memory import HEADERS
from eos_assets.kafka.range_reader import PartitionRange
from eos_assets.transform.arrow_function import ArrowFunction
from eos_assets.verify.scope import PartitionScope, ProofScope
from eos_assets.verify.totals import topic_pass
from eos_assets.verify.totals.sink_pass import SinkPass
from eos_assets.verify.totals.topic_pass import SinkPartitionPass, SourcePartitionPass, TopicPass, run_here
from eos_assets.verify.totals.total import hash_rows, total

OFFSETS = [3, 4, 6, 7, 9]
KEYS = [b"%d" % offset for offset in OFFSETS]
DEAD_LETTERS = 2


def scope(**options: Any) -> ProofScope:
    """One source partition, whose records from offset 4 on are compared; two sinks."""
    partitions = {0: PartitionScope(0, 10, 0, recompute_start=4, transactions=(0, 5))}
    return ProofScope(partitions, ["one", "two", "dead"], [1, 1], **options)


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition holds these records, in two Arrow batches."""

    def read(_: Any, wanted: PartitionRange, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        keys = pa.array(KEYS, pa.binary())
        whole = pa.record_batch({"offset": pa.array(OFFSETS), "key": keys, "value": keys})
        if "headers" in columns:
            whole = whole.append_column("headers", pa.array([[{"key": "h", "value": key}] for key in KEYS], HEADERS))
        yield from (whole.slice(0, 2), whole.slice(2))

    monkeypatch.setattr(topic_pass, "read_batches", read)


def results(one: TopicPass, chosen: ProofScope) -> dict[str, list[Any]]:
    rows = [row for batch in run_here(chosen, {}, [one]) for row in batch.to_pylist()]
    return {row["kind"]: json.loads(row["text"]) for row in rows}


def source_pass(function: Callable[[pa.RecordBatch], Any] | None, *set_aside: int) -> SourcePartitionPass:
    called = ArrowFunction("p", function) if function else None
    return SourcePartitionPass(PartitionRange("s", 0, 0, 10), called, frozenset(set_aside), {"a": 0, "b": 1})


def expected(rows: Sequence[tuple[int, int, int]]) -> list[int]:
    """The total of rows of digest, offset and number of the topic."""
    digests, offsets, topics = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    added = total(hash_rows(digests, offsets, np.zeros(len(rows), np.int64), topics))
    return [added.n, added.sum, 0]


def as_it_is(records: pa.RecordBatch) -> pa.RecordBatch:
    return records


def test_the_outputs_of_records_from_the_start_of_the_comparison_on_are_added_up() -> None:
    found = results(source_pass(as_it_is), scope())
    assert found["visible"] == [5, *visible_total()]
    assert found["recomputed"] == expected([(digest(key, key), int(key), 0) for key in KEYS[1:]])


def visible_total() -> list[int]:
    return [total(hash_rows(np.array(OFFSETS), np.zeros(5, np.int64))).sum, 0]


def test_a_record_that_was_set_aside_is_visible_and_not_computed_again() -> None:
    def raising(records: pa.RecordBatch) -> pa.RecordBatch:
        assert b"7" not in records["key"].to_pylist()
        return records

    found = results(source_pass(raising, 7), scope())
    assert found["visible"][0] == 5
    assert found["recomputed"] == expected([(digest(key, key), int(key), 0) for key in (b"4", b"6", b"9")])


@pytest.mark.parametrize("compares", [False, True])
def test_topics_skips_and_dead_letters_are_distinguished(compares: bool) -> None:
    def sorted_out(records: pa.RecordBatch) -> pa.Table:
        origin = records["origin"]
        return eos.output(
            records,
            value="value",
            topic=pc.if_else(pc.equal(origin, 4), "b", None),
            skip=pc.equal(origin, 6),
            error=pc.if_else(pc.equal(origin, 7), "no", None),
        )

    outputs = [(digest(b"4", b"4"), 4, 1), (digest(b"9", b"9"), 9, 0)]
    letters = [(0, 7, DEAD_LETTERS)] if compares else []
    found = results(source_pass(sorted_out), scope(compares_dead_letters=compares))
    assert found["recomputed"] == expected(outputs + letters)
    assert found["kept"][0] == 4, "every record that is not dropped"


def test_a_topic_that_is_not_declared_equals_none() -> None:
    def elsewhere(records: pa.RecordBatch) -> pa.Table:
        return eos.output(records, value="value", topic=["c"] * records.num_rows)

    found = results(source_pass(elsewhere), scope())
    assert found["recomputed"] == expected([(digest(key, key), int(key), -1) for key in KEYS[1:]])


def test_a_function_is_called_on_batches_that_are_cut_elsewhere() -> None:
    sizes = []

    def count(records: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(records.num_rows)
        return records

    results(source_pass(count), scope())
    assert sizes == [1, 1, 2], "not the batches of two and three records that were read"


def test_without_a_deterministic_function_only_the_records_are_counted() -> None:
    assert set(results(source_pass(None), scope())) == {"visible"}


def test_records_of_each_transaction_are_counted_if_some_may_be_dropped() -> None:
    rows = [row for batch in run_here(scope(drops=True), {}, [source_pass(as_it_is)]) for row in batch.to_pylist()]
    counts = [json.loads(row["text"]) for row in rows if row["kind"] == "transaction"]
    assert sorted(counts) == [[0, 0, 2], [0, 5, 3]]


def test_headers_of_a_sink_are_part_of_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[pa.RecordBatch] = []

    def keep(_: SinkPass, records: pa.RecordBatch) -> str:
        seen.append(records)
        return ""

    monkeypatch.setattr(SinkPass, "add", keep)
    results(SinkPartitionPass(1, PartitionRange("two", 0, 0, 10), []), scope())
    (first, second) = seen
    assert first["topic"].to_pylist() == [1, 1]
    assert first["sink_offset"].to_pylist() + second["sink_offset"].to_pylist() == OFFSETS
    digests = [digest(key, key, [("h", key)]) for key in KEYS]
    assert first["digest"].to_pylist() + second["digest"].to_pylist() == digests
