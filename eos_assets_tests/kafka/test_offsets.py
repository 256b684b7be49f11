"""Ranges of offsets in words."""

from eos_assets.kafka.offsets import OffsetRange, describe_ranges


def test_a_range_is_described_by_its_first_and_last_offset() -> None:
    assert OffsetRange(2, 5, 9).describe("orders") == "orders/2 offsets 5 to 8"
    assert OffsetRange(2, 5, 6).describe("orders") == "orders/2 offset 5"


def test_only_the_first_ranges_of_many_are_described() -> None:
    ranges = [OffsetRange(partition, 0, 1) for partition in range(5)]
    described = describe_ranges("orders", ranges)
    assert described == "orders/0 offset 0, orders/1 offset 0, orders/2 offset 0 and 2 more partitions"


def test_an_empty_range_has_no_offsets() -> None:
    assert OffsetRange(0, 7, 7).size == 0
