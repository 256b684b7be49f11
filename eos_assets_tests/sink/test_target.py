"""Each record of a target gets its own sink offset in the provenance map."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.sink.record_buffer import Target

sizes = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@given(sizes, sizes, st.integers(1, 50), st.integers(0, 100))
def test_each_record_is_mapped_once_to_its_own_offset_however_late_reports_come(
    added: list[int], reported: list[int], multiple: int, late: int
) -> None:
    total = sum(added)
    reports = batches(total, reported)
    target, taken, low = Target("sink", 0), [], 0
    for count in added:
        numbers = np.arange(low, low + count)
        target.add(numbers // 2, numbers % 2)
        low += count
        rows = target.take_delivered(upto(reports, low - late), multiple)
        if rows is not None:
            assert len(rows[0]) % multiple == 0
            taken.append(rows)
    last = target.take_delivered(reports, 1)
    taken += [] if last is None else [last]
    assert target.take_delivered(reports, 1) is None
    assert target.mapped == target.count == total
    sink_offsets, source_offsets, sequences = (np.concatenate(column).tolist() for column in zip(*taken, strict=True))
    assert sink_offsets == [offset for report in reports for offset in report]
    assert source_offsets == [number // 2 for number in range(total)]
    assert sequences == [number % 2 for number in range(total)]


def batches(total: int, sizes: list[int]) -> list[range]:
    """The offsets of this number of records, in batches of about these sizes, each after a gap."""
    ranges, offset = [], 0
    while total:
        for size in sizes:
            size = min(size, total)
            total -= size
            ranges.append(range(offset + 3, offset + 3 + size))
            offset += 3 + size
    return ranges


def upto(reports: list[range], records: int) -> list[range]:
    """The first reports, of at most this number of records."""
    first: list[range] = []
    for report in reports:
        if sum(map(len, first)) + len(report) > records:
            break
        first.append(report)
    return first
