"""A range is cut into transaction batches between source records, and an incomplete range is refused."""

import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.declare.options import Batching
from eos_assets.errors import Code, TaskError
from eos_assets.kafka.offsets import OffsetRange
from eos_assets.sink.delivery import Delivery, NothingToWrite, OpenBatch
from eos_assets.sink.errors import Fenced
from eos_assets.sink.job import Attempt
from eos_assets.sink.range_writer import RangeWriter
from eos_assets.sink.resume import AlreadyDone
from eos_assets.sink.writer import split_by_origins

#: A row: the offset and the ordinal of its source record.
Row = tuple[int, int]


@dataclass
class WrittenBatch:
    """What a transaction batch would hold, without Kafka."""

    start: int
    rows: list[Row] = field(default_factory=list)
    dropped: int | None = 0
    bytes_out: int = 0
    files: dict[str, str] = field(default_factory=dict)

    @property
    def records_in(self) -> int:
        return len(set(self.rows))

    @property
    def records_out(self) -> int:
        return len(self.rows)

    @property
    def next(self) -> int:
        return self.rows[-1][0] + 1 if self.rows else self.start

    def write(self, rows: pa.RecordBatch, _: Any) -> None:
        self.rows += zip(rows["o_offset"].to_pylist(), rows["o_ordinal"].to_pylist(), strict=True)


class Recorder:
    """A delivery that records its batches, each with the offset that was committed after it."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.committed: list[tuple[WrittenBatch, int]] = []
        self.batch = WrittenBatch(position)

    def open(self) -> OpenBatch | NothingToWrite:
        self.batch = WrittenBatch(self.position)
        return cast(OpenBatch, self)

    def commit(self, next_offset: int) -> Any:
        self.position = next_offset
        self.committed.append((self.batch, next_offset))

    def begin(self, next_offset: int) -> None: ...

    def prepare_next(self) -> None: ...

    def settle(self) -> None: ...

    def close(self) -> None: ...

    def seconds_open(self) -> float:
        return 0.0


def arrow(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"o_offset": offset, "o_ordinal": ordinal} for offset, ordinal in rows],
        pa.schema([("o_offset", pa.int64()), ("o_ordinal", pa.int64())]),
    )


def write(
    rows: list[Row],
    *cuts: int,
    position: int = 10,
    end: int = 100,
    records: int = 3,
    total: bool = True,
    visible: int | None = None,
) -> Recorder:
    """Write the range [10, end) from a position, with rows in Arrow batches that are cut there.

    `visible` is the source record that can be read after the last row.
    """
    names, faults = SimpleNamespace(source="s"), SimpleNamespace(reach=lambda *_: None)
    job = SimpleNamespace(
        names=names, faults=faults, total=total, stateful=False, batching=Batching(records=records), run_attempt=1
    )
    reader = SimpleNamespace(first_visible=lambda *_: visible)
    delivery = Recorder(position)
    first = cast(OpenBatch, delivery.open())
    attempt = Attempt(cast(Any, job), OffsetRange(0, 10, end), 0, cast(Any, reader))
    writer = RangeWriter(attempt, cast(Delivery, delivery), first)
    ends = [0, *sorted(cuts), len(rows)]
    batches = (arrow(rows[low:high]) for low, high in itertools.pairwise(ends))
    writer.write(split_by_origins(batches, records))
    return delivery


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=10), st.data())
def test_batches_tile_the_range_and_split_no_record(records: list[tuple[int, int]], data: st.DataObject) -> None:
    """For records with gaps between their offsets and several rows each, of which an earlier attempt wrote some."""
    rows: list[Row] = []
    offset = 9
    for ordinal, (gap, count) in enumerate(records):
        offset += gap
        rows += [(offset, ordinal)] * count
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    position = data.draw(st.sampled_from([10, *(row[0] + 1 for row in rows)]))
    committed = write(rows, *cuts, position=position).committed
    assert [batch.start for batch, _ in committed] == [position, *(end for _, end in committed[:-1])]
    assert committed[-1][1] == 100
    assert [row for batch, _ in committed for row in batch.rows] == [row for row in rows if row[0] >= position]
    for batch, end in committed:
        assert batch.records_in < 2 * 3, "at most one Arrow batch more than the limit"
        assert all(batch.start <= row[0] < end for row in batch.rows)
        assert batch.dropped == 0


@pytest.mark.parametrize(
    ("rows", "visible", "problem"),
    [
        ([(10, 0), (12, 2)], None, r"left out 1 record\(s\) of s/0 near offset 12"),
        ([(11, 1)], None, r"left out 1 record\(s\) of s/0 near offset 11"),
        ([(10, 0)], 50, r"left out some record\(s\) of s/0 near offset 50"),
    ],
    ids=["between", "first", "last"],
)
def test_a_record_without_a_row_is_refused_unless_the_pipeline_drops(
    rows: list[Row], visible: int | None, problem: str
) -> None:
    with pytest.raises(TaskError, match=problem) as refused:
        write(rows, visible=visible)
    assert refused.value.code is Code.RECORD_LEFT_OUT
    assert write(rows, visible=visible, total=False).committed[-1][1] == 100


def test_rows_out_of_order_are_refused() -> None:
    with pytest.raises(TaskError, match=r"out of order at source offset 11.*Remove ordered=True") as refused:
        write([(10, 0), (11, 1), (12, 2), (11, 1)], 3)
    assert refused.value.code is Code.ROWS_OUT_OF_ORDER


@pytest.mark.parametrize(
    ("position", "visible", "dropped"),
    [(10, None, [2]), (12, None, [1]), (11, None, [None]), (10, 50, [None])],
    ids=["all were seen", "the record before the batch was seen", "it was not", "some at the end were not"],
)
def test_dropped_records_are_counted_only_if_the_task_saw_all_of_them(
    position: int, visible: int | None, dropped: list[int | None]
) -> None:
    rows = [(11, 1), (14, 3)]
    committed = write(rows, position=position, visible=visible, total=False).committed
    assert [batch.dropped for batch, _ in committed] == dropped


def test_a_position_that_moved_between_two_batches_belongs_to_a_newer_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(offset, offset - 10) for offset in range(10, 20)]
    opened = Recorder.open

    def open_after_a_newer_attempt(self: Recorder) -> OpenBatch | NothingToWrite:
        return AlreadyDone(100) if self.committed else opened(self)

    monkeypatch.setattr(Recorder, "open", open_after_a_newer_attempt)
    with pytest.raises(Fenced, match="nothing left to write"):
        write(rows, 4, 8)
