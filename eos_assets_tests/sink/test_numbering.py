"""Each output gets a number among the outputs of its source record, wherever Arrow batches are cut."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.errors import Code, TaskError
from eos_assets.sink.numbering import Numbering

SCHEMA = pa.schema([("o_offset", pa.int64()), ("sequence", pa.int64()), ("skip", pa.bool_())])


def number(offsets: list[int], sequences: list[int | None] | None = None, *cuts: int) -> list[int]:
    """The sequences of rows that arrive in Arrow batches which are cut there."""
    columns = {"o_offset": offsets} if sequences is None else {"o_offset": offsets, "sequence": sequences}
    rows = pa.table(columns, schema=pa.schema([SCHEMA.field(name) for name in columns])).combine_chunks().to_batches()
    numbering, numbers = Numbering(3), []
    for low, high in itertools.pairwise([0, *sorted(cuts), len(offsets)]):
        if high > low:
            batch = rows[0].slice(low, high - low)
            numbers += numbering.number(batch, batch["o_offset"].to_numpy()).tolist()
    assert numbering.origins == len(set(offsets))
    return numbers


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.data())
def test_without_a_declared_sequence_outputs_are_numbered_by_arrival(counts: list[int], data: st.DataObject) -> None:
    offsets = [2 * record for record, count in enumerate(counts) for _ in range(count)]
    cuts = data.draw(st.lists(st.integers(0, len(offsets)), max_size=4))
    assert number(offsets, None, *cuts) == [n for count in counts for n in range(count)]


def test_a_declared_sequence_is_kept() -> None:
    assert number([5, 5, 8], [0, 7, 2], 1) == [0, 7, 2]


@pytest.mark.parametrize(
    ("sequences", "problem"),
    [
        ([0, None], "offset 5 of partition 3 has no sequence"),
        ([-1, 0], "offset 5 of partition 3 has the sequence -1: use 0 to 2147483647"),
        ([0, 2**31], "offset 5 of partition 3 has the sequence 2147483648: use 0 to 2147483647"),
        ([4, 4], "two outputs of source offset 5 of partition 3 have the sequence 4"),
    ],
)
@pytest.mark.parametrize("cuts", [(), (1,)], ids=["one batch", "two batches"])
def test_an_invalid_sequence_is_refused(sequences: list[int | None], problem: str, cuts: tuple[int, ...]) -> None:
    with pytest.raises(TaskError, match=problem) as refused:
        number([5, 5], sequences, *cuts)
    assert refused.value.code is Code.INVALID_RESULT


def test_a_skip_needs_no_sequence_of_its_own() -> None:
    rows = pa.RecordBatch.from_pylist(
        [{"o_offset": 5, "sequence": 0, "skip": True}, {"o_offset": 5, "sequence": 0, "skip": False}], SCHEMA
    )
    assert Numbering(3).number(rows, rows["o_offset"].to_numpy()).tolist() == [0, 0]
