"""Where an attempt resumes is decided from the ledger, the group offset and the plan."""

from hypothesis import given
from hypothesis import strategies as st

from eos_assets.sink.resume import AlreadyDone, GoOn, OffsetsMoved, StalePlan, decide

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
        case GoOn(resumed):
            assert resumed == position
            assert start <= resumed < end
            assert group in (None, position)


def test_the_refusal_names_both_positions() -> None:
    decision = decide(ledger=60, group=10, genesis=0, start=60, end=100)
    assert isinstance(decision, OffsetsMoved)
    assert "60" in decision.reason
    assert "10" in decision.reason
