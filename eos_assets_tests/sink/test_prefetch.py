"""Arrow batches are read ahead within a limit, and the writer learns when none arrives."""

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from eos_assets.sink.writer import AHEAD_BYTES, Prefetch
from eos_assets_tests.waiting import wait_for


def test_none_is_returned_while_no_batch_arrives_and_a_failure_is_raised_at_the_end() -> None:
    go_on = threading.Event()
    batch = pa.record_batch({"a": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        go_on.wait(30)
        yield batch
        raise ValueError("broken")

    seen: list[pa.RecordBatch | None] = []

    def read_all() -> None:
        for arrived in Prefetch(batches(), 0.01):
            seen.append(arrived)
            if arrived is None:
                go_on.set()

    with pytest.raises(ValueError, match="broken"):
        read_all()
    assert [arrived for arrived in seen if arrived is not None] == [batch, batch]
    assert None in seen


@pytest.mark.parametrize(("size", "ahead"), [(1 << 20, AHEAD_BYTES >> 20), (AHEAD_BYTES + 1, 1)])
def test_no_more_bytes_are_read_ahead_than_the_limit(size: int, ahead: int) -> None:
    """A single batch that is larger than the limit is read ahead alone."""
    batch = pa.record_batch([pa.array(np.zeros(size, np.uint8))], ["a"])
    assert batch.nbytes == size
    given: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3 * ahead):
            given.append(number)
            yield batch

    arrivals = iter(Prefetch(batches(), 30))
    wait_for(lambda: len(given) == ahead + 1)  # the last one is read, and waits for room
    assert next(arrivals) is not None
    wait_for(lambda: len(given) == ahead + 2)
    assert len([*arrivals]) == 3 * ahead - 1
    assert len(given) == 3 * ahead


def test_draining_reads_the_input_to_its_end() -> None:
    left = iter([pa.record_batch({"a": [n]}) for n in range(100)])
    Prefetch(left, 30).drain()
    assert next(left, None) is None
