"""The pure parts: resume rule, plans, invariants and injected failures."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults, InjectedFailure
from eos_assets.kafka.offsets import Bounds
from eos_assets.log.ledger import Genesis, LedgerEntry, WrittenRange
from eos_assets.run.plan import end_of
from eos_assets.sink.resume import AlreadyDone, GoOn, OffsetsMoved, StalePlan, decide
from eos_assets.verify.invariants import ledger_matches_sink, ledger_tiles_source, offsets_match_ledger

offsets = st.integers(0, 2**62)


@given(st.none() | offsets, st.none() | offsets, offsets, offsets, st.integers(1, 10**9))
def test_an_attempt_never_writes_below_the_ledger_nor_over_a_gap(
    tail: int | None, group: int | None, genesis: int, start: int, size: int
) -> None:
    end = start + size
    position = genesis if tail is None else tail
    decision = decide(ledger=tail, group=group, genesis=genesis, start=start, end=end)
    match decision:
        case OffsetsMoved():
            assert group is not None
            assert group != position
        case AlreadyDone():
            assert position >= end
        case StalePlan():
            assert position < start
        case GoOn(at):
            assert at == position
            assert start <= at < end
            assert group in (None, position)


def test_the_refusal_says_both_positions() -> None:
    decision = decide(ledger=60, group=10, genesis=0, start=60, end=100)
    assert isinstance(decision, OffsetsMoved)
    assert "60" in decision.reason
    assert "10" in decision.reason


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(0, 1000))
def test_ranges_that_tile_are_green_and_a_missing_one_is_red(sizes: list[int], genesis: int) -> None:
    cuts = np.cumsum([genesis, *sizes]).tolist()
    whole = [entry_over(low, high) for low, high in itertools.pairwise(cuts)]
    first = Genesis("p", 0, genesis, {})
    assert ledger_tiles_source({0: [first, *whole]}).holds
    assert not ledger_tiles_source({0: [first, *whole, whole[-1]]}).holds
    if len(whole) > 1:
        assert not ledger_tiles_source({0: [first, *whole[1:]]}).holds


PLANNED = pipeline(source=Topic("s"), sink=Topic("t"), name="planned")(lambda records: records)


@given(
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 50),
    st.none() | st.integers(1, 300),
)
def test_plans_end_at_the_last_stable_offset_and_tile_the_way_to_it(
    position: int, start: int, size: int, unstable: int, most: int | None
) -> None:
    found = Bounds(start, start + size, start + size + unstable)
    if not found.start <= position <= found.stable:
        with pytest.raises(EosError, match=r"were deleted before|is committed"):
            end_of(PLANNED, 0, position, found, most)
        return
    while position < found.stable:
        end = end_of(PLANNED, 0, position, found, most)
        assert position < end <= found.stable, "never over what is open, and always on"
        assert most is None or end - position <= most
        position = end
    assert end_of(PLANNED, 0, position, found, most) == position, "nothing new is nothing to do"


sums = st.lists(st.tuples(*[st.integers(0, 100)] * 3, st.integers(0, 2**64 - 1)), min_size=1, max_size=5)


@given(sums, st.data())
def test_one_figure_that_differs_between_ledger_and_sink_is_red(
    parts: list[tuple[int, ...]], data: st.DataObject
) -> None:
    whole = replace(entry_over(0, 10), sinks=tuple(WrittenRange("t", p, *part) for p, part in enumerate(parts)))
    found = {(0, 0, "t", p): (part[0], part[1], part[2], part[3]) for p, part in enumerate(parts)}
    assert ledger_matches_sink([whole], found).holds
    place = data.draw(st.sampled_from(sorted(found)))
    figure = data.draw(st.integers(0, 3))
    wrong = list(found[place])
    wrong[figure] += 1
    assert not ledger_matches_sink([whole], {**found, place: (wrong[0], wrong[1], wrong[2], wrong[3])}).holds
    assert not ledger_matches_sink([whole], {**found, (0, 10, "t", 0): (1, 0, 0, 0)}).holds, "nobody claims it"


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


def test_failures_repeat_by_seed_and_do_not_fail_for_ever() -> None:
    def fails(seed: int, run_attempt: int) -> bool:
        try:
            Faults(probability=0.5, seed=seed).fail_transaction(0, 1000, run_attempt, 0)
        except InjectedFailure:
            return True
        return False

    for seed in range(20):
        drawn = [fails(seed, attempt) for attempt in range(1, 40)]
        assert drawn == [fails(seed, attempt) for attempt in range(1, 40)]
        assert 5 < sum(drawn) < 35


@pytest.mark.parametrize("probability", [-0.1, 1.1])
def test_a_probability_outside_is_refused(probability: float) -> None:
    with pytest.raises(EosError, match="is not valid"):
        Faults(probability=probability)
