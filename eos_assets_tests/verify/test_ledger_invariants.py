"""The invariants about the ledger: it tiles the source, and agrees with the sink and with the group offsets."""

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.log.ledger import Genesis, LedgerEntry, WrittenRange
from eos_assets.verify.invariants import ledger_matches_sink, ledger_tiles_source, offsets_match_ledger


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(0, 1000))
def test_ranges_that_tile_are_green_and_a_missing_one_is_red(sizes: list[int], genesis: int) -> None:
    cuts = np.cumsum([genesis, *sizes]).tolist()
    whole = [entry_over(low, high) for low, high in itertools.pairwise(cuts)]
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
    whole = replace(entry_over(0, 10), sinks=tuple(WrittenRange("t", p, *part) for p, part in enumerate(parts)))
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


def entry_over(start: int, end: int) -> LedgerEntry:
    return LedgerEntry("p", "s", 0, start, end, 0, 0, 0, 0, 0, (), "r", 1, 0, "c", 0, 0)
