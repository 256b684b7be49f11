"""The window of a proof: which transactions can be proven."""

import pytest

from eos_assets.kafka.offsets import Bounds
from eos_assets.log.ledger import Genesis, LedgerEntry, WrittenRange
from eos_assets.verify.window.reader import ProvableRange, code_start, highest, provable_range
from eos_assets.verify.window.window import PartitionWindow


def entry(start: int, end: int, first: int, last: int, topic: str = "sink", version: str = "1") -> LedgerEntry:
    written = WrittenRange(topic, 0, last - first + 1, first, last, 0)
    return LedgerEntry("p", "source", 0, start, end, 0, 0, 0, 0, 0, (written,), "run", 1, 0, version, 0, 0)


ROWS: list[Genesis | LedgerEntry] = [Genesis("p", 0, 5, {}), entry(5, 8, 0, 2), entry(8, 9, 3, 3), entry(9, 12, 4, 6)]
WINDOW = PartitionWindow(0, list(ROWS), None)
#: The first transaction with all maps, the bounds of the sink, and what can be proven.
SCENARIOS: dict[str, tuple[int, Bounds, ProvableRange]] = {
    "everything is there": (0, Bounds(0, 9, 9), ProvableRange(5, 12, {}, True)),
    "the last one is not stable yet": (0, Bounds(0, 4, 9), ProvableRange(5, 9, {}, False)),
    "two are not stable yet": (0, Bounds(0, 3, 9), ProvableRange(5, 8, {}, False)),
    "retention took the first outputs": (0, Bounds(1, 9, 9), ProvableRange(8, 12, {("sink", 0): 2}, True)),
    "retention took the first maps": (9, Bounds(0, 9, 9), ProvableRange(9, 12, {("sink", 0): 3}, True)),
    "the sink lost its end": (0, Bounds(0, 5, 5), ProvableRange(5, 12, {}, True)),
}


@pytest.mark.parametrize(("first_map", "there", "expected"), SCENARIOS.values(), ids=SCENARIOS)
def test_transactions_that_are_complete_can_be_proven(first_map: int, there: Bounds, expected: ProvableRange) -> None:
    assert provable_range(WINDOW, {"sink": {0: there}}, first_map) == expected


def test_outputs_in_a_topic_that_was_deleted_are_no_longer_provable() -> None:
    window = PartitionWindow(0, [ROWS[0], entry(5, 8, 0, 2, topic="former"), entry(8, 9, 3, 3)], None)
    expected = ProvableRange(8, 9, {("former", 0): 2}, True)
    assert provable_range(window, {"sink": {0: Bounds(0, 9, 9)}}, 0) == expected


def test_a_window_without_entries_begins_and_ends_at_the_last_proof() -> None:
    assert provable_range(PartitionWindow(0, [], 7), {}, 0) == ProvableRange(7, 7, {}, True)
    assert provable_range(PartitionWindow(0, [], None), {}, 0) == ProvableRange(0, 0, {}, True)


def test_the_current_code_begins_after_the_last_entry_of_other_code() -> None:
    rows: list[Genesis | LedgerEntry] = [ROWS[0], entry(5, 8, 0, 2), entry(8, 9, 3, 3, version="2"), entry(9, 12, 4, 6)]
    assert (code_start(rows, "1"), code_start(rows, "2"), code_start([], "1")) == (9, 12, 0)


def test_the_highest_offset_of_each_partition_is_kept() -> None:
    assert highest([{("a", 0): 3}, {("a", 0): 1, ("b", 0): 0}, {("b", 0): 2}]) == {("a", 0): 3, ("b", 0): 2}
