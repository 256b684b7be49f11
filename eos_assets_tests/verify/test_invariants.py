"""The invariants over the ledger and sums: each violation is shown with its place."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.declare.check import Finding
from eos_assets.log.ledger import (
    REJECTED,
    REPLAYED,
    Genesis,
    LedgerEntry,
    LetterEntry,
    LetterMark,
    LostOutputs,
    Repair,
    WrittenRange,
)
from eos_assets.verify.invariants import (
    SHOWN,
    Sums,
    Violations,
    add_repaired,
    code_versions,
    dropped_matches_ledger,
    ledger_matches_sink,
    ledger_tiles_source,
    letters_replayed_twice,
    offsets_match_ledger,
)

Rows = list[Genesis | LedgerEntry]


def entry(start: int, end: int, *sinks: WrittenRange, partition: int = 0, dropped: int | None = 0) -> LedgerEntry:
    return LedgerEntry("p", "source", partition, start, end, 0, 0, 0, 0, dropped, sinks, "run", 1, 0, "1", 0, 0)


def examples(finding: Finding) -> list[str]:
    assert finding.holds == (not finding.examples)
    return list(finding.examples)


GENESIS = Genesis("p", 0, 5, {})


@pytest.mark.parametrize(
    ("rows", "proven", "expected"),
    [
        ([], None, []),
        ([GENESIS], None, []),
        ([GENESIS, entry(5, 8), entry(8, 9)], None, []),
        ([entry(5, 8), entry(8, 9)], 5, []),
        ([GENESIS, entry(6, 8)], None, ["gap between 5 and [6, 8)"]),
        ([GENESIS, entry(5, 8), entry(7, 9)], None, ["overlap between 8 and [7, 9)"]),
        ([GENESIS, entry(5, 8), entry(5, 8)], None, ["overlap between 8 and [5, 8)"]),
        ([GENESIS, entry(5, 5), entry(5, 9)], None, ["empty range [5, 5)"]),
        ([GENESIS, entry(5, 8), GENESIS], None, ["a second genesis at 5, position 8"]),
        ([entry(5, 8), entry(8, 9)], None, ["the ledger begins with [5, 8) and has no genesis"]),
        ([entry(8, 9)], 5, ["gap between 5 and [8, 9)"]),
        ([entry(5, 8)], 7, ["overlap between 7 and [5, 8)"]),
    ],
)
def test_ranges_that_do_not_tile_the_source_are_named(rows: Rows, proven: int | None, expected: list[str]) -> None:
    found = ledger_tiles_source({0: [GENESIS, entry(5, 6)], 1: rows}, {0: None, 1: proven})
    assert examples(found) == [f"partition 1: {example}" for example in expected]


WHOLE = entry(0, 10, WrittenRange("sink", 1, 2, 3, 4, 77), WrittenRange("dead", 0, 1, 0, 0, 0))
SUMS: Sums = {(0, 0, "sink", 1): (2, 3, 4, 77), (0, 0, "dead", 0): (1, 0, 0, 0)}
DIFFERS = "(count, first, last, digest) = (2, 3, 4, 77) for sink/1; the topic has {}"


@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        (SUMS, []),
        *(({**SUMS, (0, 0, "sink", 1): seen}, [DIFFERS.format(seen)]) for seen in [(1, 3, 3, 77), (2, 3, 4, 78)]),
        ({(0, 0, "dead", 0): (1, 0, 0, 0)}, [DIFFERS.format((0, -1, -1, 0))]),
        (
            {**SUMS, (0, 10, "sink", 1): (4, 5, 8, 1)},
            ["sink/1 has 4 records of the transaction that starts at 10 in partition 0"],
        ),
    ],
    ids=["equal", "another count", "another digest", "nothing in the sink", "no entry"],
)
def test_sums_that_differ_from_the_ledger_are_named(sums: Sums, expected: list[str]) -> None:
    found = examples(ledger_matches_sink([WHOLE], sums))
    assert all(text in example for text, example in zip(expected, found, strict=True))


@pytest.mark.parametrize(
    ("positions", "groups", "expected"),
    [
        ({0: 7, 1: 9}, {0: 7, 1: 9}, []),
        ({0: 7}, {0: None}, []),
        ({0: 7}, {}, []),
        ({0: 7, 1: 9}, {0: 7, 1: 8}, ["partition 1: ledger 9, group offset 8"]),
        ({0: None}, {0: 8}, ["partition 0: ledger None, group offset 8"]),
    ],
    ids=["equal", "absent", "held by an open transaction", "moved", "a ledger that was lost"],
)
def test_group_offsets_that_differ_from_the_ledger_are_named(
    positions: dict[int, int | None], groups: dict[int, int | None], expected: list[str]
) -> None:
    assert examples(offsets_match_ledger(positions, groups)) == expected


@pytest.mark.parametrize(
    ("declared", "dropped", "differs"), [(2, 2, 0), (0, None, 0), (None, 2, 0), (2, 1, 1), (2, None, 1)]
)
def test_another_number_of_dropped_records_than_that_of_the_ledger_is_found(
    declared: int | None, dropped: int | None, differs: int
) -> None:
    found = dropped_matches_ledger([entry(4, 9, dropped=declared)], {} if dropped is None else {(0, 4): dropped})
    assert found.count == len(found.examples) == differs
    assert all("transaction [4, 9) of partition 0" in example for example in found.examples)


def test_all_violations_are_counted_and_the_first_ones_shown() -> None:
    wrong = Violations()
    for number in range(2 * SHOWN):
        wrong.add(str(number))
    finding = wrong.finding("name", "holds", "broken")
    assert (finding.holds, finding.detail) == (False, f"{2 * SHOWN} broken")
    assert finding.examples == tuple(map(str, range(SHOWN)))


def test_code_versions_are_shown_from_where_they_change() -> None:
    entries = [replace(entry(start, start + 1), code_version=version) for start, version in enumerate("aabba")]
    other = replace(entry(3, 4, partition=1), code_version="b")
    assert code_versions([*entries[:3], other, *entries[3:]]) == [
        "partition 0: from 0: a; from 2: b; from 4: a",
        "partition 1: from 3: b",
    ]


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(0, 1000))
def test_ranges_that_tile_are_green_and_a_missing_one_is_red(sizes: list[int], genesis: int) -> None:
    cuts = np.cumsum([genesis, *sizes]).tolist()
    whole = [entry(low, high) for low, high in itertools.pairwise(cuts)]
    first = Genesis("p", 0, genesis, {})
    assert ledger_tiles_source({0: [first, *whole]}).holds
    assert not ledger_tiles_source({0: [first, *whole, whole[-1]]}).holds
    if len(whole) > 1:
        assert not ledger_tiles_source({0: [first, *whole[1:]]}).holds


sums = st.lists(st.tuples(*[st.integers(0, 100)] * 3, st.integers(0, 2**64 - 1)), min_size=1, max_size=5)


@given(sums, st.data())
def test_one_figure_that_differs_between_ledger_and_sink_is_red(
    parts: list[tuple[int, ...]], data: st.DataObject
) -> None:
    whole = entry(0, 10, *(WrittenRange("t", p, *part) for p, part in enumerate(parts)))
    sums_of_sink = {(0, 0, "t", p): (part[0], part[1], part[2], part[3]) for p, part in enumerate(parts)}
    assert ledger_matches_sink([whole], sums_of_sink).holds
    place = data.draw(st.sampled_from(sorted(sums_of_sink)))
    figure = data.draw(st.integers(0, 3))
    wrong = list(sums_of_sink[place])
    wrong[figure] += 1
    assert not ledger_matches_sink([whole], {**sums_of_sink, place: (wrong[0], wrong[1], wrong[2], wrong[3])}).holds
    assert not ledger_matches_sink([whole], {**sums_of_sink, (0, 10, "t", 0): (1, 0, 0, 0)}).holds, (
        "no ledger entry claims it"
    )


@given(st.dictionaries(st.integers(0, 5), st.integers(0, 100), min_size=1), st.data())
def test_a_group_offset_that_differs_is_red_and_one_that_is_absent_is_not(
    positions: dict[int, int], data: st.DataObject
) -> None:
    assert offsets_match_ledger(positions, dict(positions)).holds
    partition = data.draw(st.sampled_from(sorted(positions)))
    assert offsets_match_ledger(positions, {**positions, partition: None}).holds
    assert not offsets_match_ledger(positions, {**positions, partition: positions[partition] + 1}).holds


def test_what_was_lost_and_repaired_is_counted_for_its_transaction() -> None:
    lost = LostOutputs(0, "t", 0, 2, 5)
    repair = repair_of(1, lost)
    sums: Sums = {(0, 0, "t", 0): (3, 0, 9, 2**64 - 1), (0, -1, "t", 0): (2, 10, 11, 5)}
    assert add_repaired(sums, [repair], [repair]) == {**sums, (0, 0, "t", 0): (5, 0, 9, 4)}
    assert add_repaired(sums, [repair], []) == {(0, 0, "t", 0): (5, 0, 9, 4)}, "of a repair that is partly gone"
    assert add_repaired({}, [repair], [repair]) == {}, "a claim about records that no map names adds none"


def test_a_repair_is_compared_with_the_sink_as_a_transaction() -> None:
    repair = repair_of(1)
    assert ledger_matches_sink([repair], {(0, -1, "t", 0): (2, 10, 11, 5)}).holds
    (example,) = ledger_matches_sink([repair], {(0, -1, "t", 0): (1, 10, 10, 5)}).examples
    assert example.startswith("repair 1 of partition 0: ")
    assert not ledger_matches_sink([], {(0, -1, "t", 0): (2, 10, 11, 5)}).holds, "without an entry"


def repair_of(number: int, *lost: LostOutputs) -> Repair:
    return Repair(
        pipeline="p",
        topic="s",
        partition=0,
        number=number,
        position=20,
        first=1,
        last=7,
        records_in=2,
        records_out=2,
        skipped=0,
        dead=0,
        sinks=(WrittenRange("t", 0, 2, 10, 11, 5),),
        lost=lost,
        run="r",
        run_attempt=1,
        task_attempt=0,
        code_version="1",
        began_ms=0,
        ended_ms=0,
    )


def letters(number: int, *marks: LetterMark, partition: int = 0) -> LetterEntry:
    return LetterEntry(
        pipeline="p",
        topic="s",
        partition=partition,
        number=number,
        position=10,
        marks=marks,
        by="me",
        records_out=1,
        skipped=0,
        sinks=(),
        run="r",
        run_attempt=1,
        task_attempt=0,
        code_version="1",
        began_ms=0,
        ended_ms=0,
    )


def test_a_dead_letter_that_two_transactions_replayed_is_found() -> None:
    first = letters(1, LetterMark(3, REJECTED), LetterMark(4, REPLAYED))
    others = [letters(2, LetterMark(3, REPLAYED)), letters(1, LetterMark(4, REPLAYED), partition=1)]
    assert letters_replayed_twice([first, *others]).examples == []
    twice = letters_replayed_twice([first, *others, letters(3, LetterMark(4, REPLAYED))])
    assert twice.examples == ["dead letter 0/4: replayed by 1 and by 3"]
