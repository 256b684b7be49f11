"""Source records beside the map rows that name them as origins: each violation is found, with its place."""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.rows.source_checker import SourceChecker
from eos_assets.verify.scope import KEPT, NAMED, RECORD, PartitionScope, ProofScope

#: Kind → its number and its texts.
Observed = dict[str, tuple[int, list[str]]]
FIGURES = {"source_records", "newer", "vanished", "dropped"}
#: Source partition 0 has two transactions, [0, 4) and [4, 10); a third one may have begun at 10.
PARTITION = PartitionScope(0, 10, source_start=0, recompute_start=0, transactions=(0, 4))
SCOPE = ProofScope({0: PARTITION, 1: replace(PARTITION, transactions=(0,))}, ["sink", "dead"], [2])


@dataclass(frozen=True)
class Row:
    source_partition: int
    source_offset: int
    tag: int
    sequence: int | None = None
    start: int | None = None
    sink_offset: int | None = None
    replaced: int | None = None


SCHEMA = pa.schema([(name, pa.int64()) for name in Row.__dataclass_fields__])


def record(offset: int, partition: int = 0) -> Row:
    return Row(partition, offset, RECORD)


def name(offset: int, sink_offset: int = 0, partition: int = 0, start: int = 0, sequence: int = 0) -> Row:
    return Row(partition, offset, NAMED, sequence, start, sink_offset)


def skip(offset: int) -> Row:
    return name(offset, sink_offset=-1)


def kept(offset: int) -> Row:
    return Row(0, offset, KEPT)


def observe(scope: ProofScope, rows: Iterable[Row], *cuts: int) -> Observed:
    """What comes of rows in Arrow batches that are cut there."""
    ordered = sorted(rows, key=lambda row: (row.source_partition, row.source_offset, row.tag, row.sequence or 0))
    whole = pa.RecordBatch.from_pylist([asdict(row) for row in ordered], SCHEMA)
    ends = [0, *sorted(cuts), len(ordered)]
    batches = [whole.slice(low, high - low) for low, high in itertools.pairwise(ends)]
    observed: Observed = {}
    for found in (row for batch in SourceChecker(scope).check(batches) for row in batch.to_pylist()):
        n, texts = observed.get(found["kind"], (0, []))
        observed[found["kind"]] = (n + found["n"], sorted([*texts, found["text"]] if found["text"] else texts))
    return observed


def violations(observed: Observed) -> dict[str, list[str]]:
    found = {kind: counted for kind, counted in observed.items() if kind not in FIGURES}
    assert all(n == len(texts) for n, texts in found.values()), "each has its counter-example"
    return {kind: texts for kind, (_, texts) in found.items()}


#: Outputs in both transactions, a skip, a record with two outputs, and one record of another partition.
RECORDS = [*(record(offset) for offset in range(6)), record(0, partition=1)]
FIRST = [name(0, 0), skip(1), name(2, 1), name(2, 2, sequence=1), name(3, 3)]
CLEAN = [*RECORDS, *FIRST, name(4, 5, start=4), name(5, 6, start=4), name(0, 7, partition=1)]


def but(*gone: Row) -> list[Row]:
    return [row for row in CLEAN if row not in gone]


def test_clean_rows_give_the_number_of_source_records_and_no_violation() -> None:
    assert observe(SCOPE, CLEAN) == {"source_records": (7, [])}


AFTER = [record(7), name(7, 9, start=10)]
NEW = replace(PARTITION, start=4, source_start=4, proven=4)
INCREMENTAL = replace(SCOPE, incremental=True, partitions={**SCOPE.partitions, 0: NEW})
SINCE = [record(4), record(5), name(4, 5, start=4), name(5, 6, start=4)]
COMPACTED, DROPS = replace(SCOPE, source_is_compacted=True), replace(SCOPE, drops=True)
LATE_START = replace(SCOPE, partitions={**SCOPE.partitions, 0: replace(PARTITION, source_start=2)})
ORIGIN = "source_partition=0, source_offset"
#: The rows, the scope, and the violations that are to be found.
SCENARIOS: dict[str, tuple[list[Row], ProofScope, dict[str, list[str]]]] = {
    "no rows": ([], SCOPE, {}),
    "a duplicate": (
        [*CLEAN, name(3, 9)],
        SCOPE,
        {"no_duplicates": [f"{ORIGIN}=3, sequence=0, sink_offset=9"]},
    ),
    "a duplicate in another transaction": (
        [*CLEAN, name(3, 9, start=4)],
        SCOPE,
        {"no_duplicates": [f"{ORIGIN}=3, sequence=0, sink_offset=9"]},
    ),
    "three outputs of one sequence": (
        [*CLEAN, name(2, 8, sequence=1), name(2, 9, sequence=1)],
        SCOPE,
        {"no_duplicates": [f"{ORIGIN}=2, sequence=1, sink_offset=8", f"{ORIGIN}=2, sequence=1, sink_offset=9"]},
    ),
    "a loss": (but(name(3, 3)), SCOPE, {"none_missing": [f"{ORIGIN}=3"]}),
    "a loss of all that a partition has": (
        but(name(0, 7, partition=1)),
        SCOPE,
        {"none_missing": ["source_partition=1, source_offset=0"]},
    ),
    "a torn transaction": (
        but(name(4, 5, start=4), name(5, 6, start=4)),
        SCOPE,
        {"none_missing": [f"{ORIGIN}=4", f"{ORIGIN}=5"]},
    ),
    "one output of two is missing, which running the transform again finds": (but(name(2, 2, sequence=1)), SCOPE, {}),
    "a skip twice": ([*CLEAN, skip(1)], SCOPE, {}),
    "an origin that a newer transaction names as well": ([*CLEAN, name(3, 9, start=10)], SCOPE, {}),
    "one that it names before": ([*but(name(3, 3)), name(3, 9, start=10), name(3, 3, sequence=1)], SCOPE, {}),
    "an invented record": ([*CLEAN, name(6, 9, start=4)], SCOPE, {"none_invented": [f"{ORIGIN}=6"]}),
    "an invented skip": ([*CLEAN, skip(6)], SCOPE, {"none_invented": [f"{ORIGIN}=6"]}),
    "origins that the source no longer holds": (but(record(0), record(1)), LATE_START, {}),
    "a source record that vanished by compaction": (but(record(3)), COMPACTED, {}),
    "a loss in a compacted source": (but(name(3, 3)), COMPACTED, {"none_missing": [f"{ORIGIN}=3"]}),
    "a newer transaction": ([*CLEAN, name(10, 9, start=10)], SCOPE, {}),
    "a record that only a newer transaction names": ([*CLEAN, *AFTER], SCOPE, {"none_missing": [f"{ORIGIN}=7"]}),
    "a dropped record": (but(name(3, 3)), DROPS, {}),
    "a kept record without an output": ([*but(name(3, 3)), kept(3)], DROPS, {"none_missing": [f"{ORIGIN}=3"]}),
    "a kept record with an output": ([*CLEAN, kept(3)], DROPS, {}),
    "what is new since the last proof": (SINCE, INCREMENTAL, {}),
    "a transaction that was proven before": (
        [*SINCE, name(3, 9)],
        INCREMENTAL,
        {"no_duplicates": [f"{ORIGIN}=3, sink_offset=9"]},
    ),
    "a transaction that has expired": ([*SINCE, name(3, 9)], replace(INCREMENTAL, incremental=False), {}),
    "a skip that was proven before": ([*SINCE, skip(3)], INCREMENTAL, {}),
    "an origin that was proven before": (
        [*SINCE, name(3, 9, start=4)],
        INCREMENTAL,
        {"no_duplicates": [f"{ORIGIN}=3"]},
    ),
}


@pytest.mark.parametrize(("rows", "scope", "expected"), SCENARIOS.values(), ids=SCENARIOS)
def test_exactly_the_violations_are_found_wherever_rows_are_cut(
    rows: list[Row], scope: ProofScope, expected: dict[str, list[str]]
) -> None:
    whole = observe(scope, rows)
    assert violations(whole) == expected
    assert all(observe(scope, rows, cut, cut) == whole for cut in range(len(rows) + 1)), "also around an empty batch"


def test_rows_of_newer_transactions_and_vanished_records_are_counted() -> None:
    newer = [name(10, 9, start=10), skip(11)]
    assert observe(SCOPE, [*CLEAN, newer[0], replace(newer[1], start=10)])["newer"] == (2, [])
    assert observe(COMPACTED, but(record(0), record(3)))["vanished"] == (2, [])


def test_dropped_records_are_counted_by_transaction() -> None:
    rows = [*RECORDS, name(0), kept(0), name(4, 5, start=4), kept(4)]
    found = {tuple(json.loads(text)) for text in observe(DROPS, rows)["dropped"][1]}
    assert found == {(0, 0, 3), (0, 4, 1), (1, 0, 1)}, "source partition, start of the transaction, records"


def test_all_violations_are_counted_and_the_first_ones_shown() -> None:
    n, texts = observe(SCOPE, [record(offset) for offset in range(3 * SHOWN)], SHOWN // 2)["none_missing"]
    assert (n, set(texts)) == (3 * SHOWN, {f"{ORIGIN}={offset}" for offset in range(SHOWN)})


partitions, offsets = st.integers(0, 1), st.integers(0, 6)
starts, sequences = st.sampled_from([0, 4, 10]), st.integers(0, 1)
rows_of_any_kind = st.one_of(
    st.builds(record, offsets, partitions),
    st.builds(name, offsets, st.integers(-1, 3), partitions, starts, sequences),
    st.builds(kept, offsets),
)
scopes = st.builds(
    replace,
    st.sampled_from([SCOPE, INCREMENTAL, LATE_START]),
    drops=st.booleans(),
    source_is_compacted=st.booleans(),
)


@given(scopes, st.lists(rows_of_any_kind, max_size=12), st.data())
def test_the_result_does_not_depend_on_where_batches_are_cut(
    scope: ProofScope, rows: list[Row], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=5))
    assert observe(scope, rows, *cuts) == observe(scope, rows)


def test_no_more_is_held_of_a_record_with_very_many_outputs_than_of_any_other() -> None:
    """And an output that is repeated in the next Arrow batch is found."""
    checker = SourceChecker(SCOPE)
    cuts = [[record(7)], *([name(7, n, sequence=n) for n in range(low, low + 1000)] for low in range(0, 100_000, 1000))]
    cuts.append([name(7, n, sequence=n) for n in (99_999, 100_000)])
    held: list[int] = []

    def watched() -> Iterator[pa.RecordBatch]:
        for rows in cuts:
            yield pa.RecordBatch.from_pylist([asdict(row) for row in rows], SCHEMA)
            held.append(checker.held.num_rows if checker.held is not None else 0)

    (result,) = checker.check(watched())
    counts = {row["kind"]: row["n"] for row in result.to_pylist()}
    assert counts["no_duplicates"] == 1, "over the border of two batches"
    assert counts["source_records"] == 1
    assert "none_missing" not in counts
    assert max(held) < 300


def test_an_output_and_its_repair_are_a_duplicate_unless_the_repair_replaces_it() -> None:
    both = [record(0), name(0, sink_offset=1), name(0, sink_offset=7, start=-1)]
    assert set(violations(observe(SCOPE, both))) == {"no_duplicates"}
    both[1] = replace(both[1], replaced=1)
    assert violations(observe(SCOPE, both)) == {}


def test_a_repair_accounts_for_its_source_record() -> None:
    assert set(violations(observe(SCOPE, [record(0), record(1), name(0)]))) == {"none_missing"}
    assert violations(observe(SCOPE, [record(0), record(1), name(0), name(1, start=-1)])) == {}


def test_a_replay_explains_the_origins_that_its_entry_names_and_no_other() -> None:
    """Record 3 gave a dead letter, sequence 0; its replay is amendment 1."""
    replays = replace(SCOPE, replays={(0, -1): frozenset({3})})
    replayed = name(3, 9, start=-1, sequence=1)
    assert violations(observe(replays, [*CLEAN, replayed])) == {}
    assert violations(observe(replays, [*CLEAN, replayed, name(2, 10, start=-1, sequence=5)])) == {
        "none_invented": [f"{ORIGIN}=2, replay=1"]
    }
    assert violations(observe(replays, [*CLEAN, name(3, 9, start=-1)])) == {
        "no_duplicates": [f"{ORIGIN}=3, sequence=0, sink_offset=9"]
    }
