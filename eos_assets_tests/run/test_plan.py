"""Where a planned range ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets.errors import EosError
from eos_assets.kafka.offsets import Bounds
from eos_assets.run.plan import end_of

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
    offsets = Bounds(start, start + size, start + size + unstable)
    if not offsets.start <= position <= offsets.stable:
        with pytest.raises(EosError, match=r"were deleted before|is committed"):
            end_of(PLANNED, 0, position, offsets, most)
        return
    while position < offsets.stable:
        end = end_of(PLANNED, 0, position, offsets, most)
        assert position < end <= offsets.stable, "never past an open transaction, and always ahead"
        assert most is None or end - position <= most
        position = end
    assert end_of(PLANNED, 0, position, offsets, most) == position, "nothing new is nothing to do"
