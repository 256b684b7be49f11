"""Rows that are read ahead: who waits for them is told, and no more of them are held than fits."""

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from eos_assets.sink.prefetch import AHEAD_BYTES, Prefetch
from eos_assets_tests.waiting import wait_for


def test_who_waits_for_pieces_is_told_and_hears_of_failures() -> None:
    go_on = threading.Event()
    piece = pa.record_batch({"a": [1]})

    def pieces() -> Iterator[pa.RecordBatch]:
        yield piece
        go_on.wait(30)
        yield piece
        raise ValueError("broken")

    seen: list[pa.RecordBatch | None] = []

    def take_in() -> None:
        for arrived in Prefetch(pieces(), 0.01):
            seen.append(arrived)
            if arrived is None:
                go_on.set()

    with pytest.raises(ValueError, match="broken"):
        take_in()
    assert [arrived for arrived in seen if arrived is not None] == [piece, piece]
    assert None in seen


@pytest.mark.parametrize(("size", "ahead"), [(1 << 20, AHEAD_BYTES >> 20), (AHEAD_BYTES + 1, 1)])
def test_so_much_is_read_ahead_and_no_more(size: int, ahead: int) -> None:
    """Also where a single piece is larger than that."""
    piece = pa.record_batch([pa.array(np.zeros(size, np.uint8))], ["a"])
    assert piece.nbytes == size
    given: list[int] = []

    def pieces() -> Iterator[pa.RecordBatch]:
        for number in range(3 * ahead):
            given.append(number)
            yield piece

    arrivals = iter(Prefetch(pieces(), 30))
    wait_for(lambda: len(given) == ahead + 1)  # the last one is in the reader's hand
    assert next(arrivals) is not None
    wait_for(lambda: len(given) == ahead + 2)
    assert len([*arrivals]) == 3 * ahead - 1
    assert len(given) == 3 * ahead


def test_what_nobody_wants_is_read_to_its_end() -> None:
    left = iter([pa.record_batch({"a": [n]}) for n in range(100)])
    Prefetch(left, 30).drain()
    assert next(left, None) is None
