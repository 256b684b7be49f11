"""The rows of one source record are held in memory, and on disk if there are many."""

import pyarrow as pa
import pytest

from eos_assets.sink import range_writer
from eos_assets.sink.range_writer import HeldRows


@pytest.mark.parametrize(
    ("limit", "value", "spilled"),
    [("ROWS", 5, False), ("ROWS", 3, True), ("BYTES", 10_000, False), ("BYTES", 16, True)],
)
def test_rows_are_returned_in_order_from_memory_and_from_disk(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, spilled: bool
) -> None:
    monkeypatch.setattr(range_writer, limit, value)
    held = HeldRows(7)
    for low in (0, 2, 4):
        held.add(pa.record_batch({"n": list(range(low, min(low + 2, 5)))}))
        held.add(pa.record_batch({"n": pa.array([], pa.int64())}))
    assert held.spilled is spilled
    assert [n for batch in held.batches() for n in batch["n"].to_pylist()] == [0, 1, 2, 3, 4]
    held.close()
