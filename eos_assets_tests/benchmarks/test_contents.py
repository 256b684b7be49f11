"""An output that is not exactly what the source gives is found."""

import numpy as np
import pyarrow as pa

from benchmarks.contents import Contents, differences, expected_digests, joined
from benchmarks.workload import INTEGERS
from eos_assets.kafka.partitioner import partitions_of
from eos_assets.log.digest import row_digests


def contents(*partitions: list[int]) -> Contents:
    return {partition: np.array(sorted(digests), np.int64) for partition, digests in enumerate(partitions)}


def test_equal_contents_have_no_differences() -> None:
    assert differences(contents([1, 2], []), contents([1, 2], []), duplicates_allowed=False) == []


def test_what_is_wrong_is_counted_by_partition() -> None:
    expected, actual = contents([1, 2, 3], [4]), contents([2, 2, 9], [4])
    assert differences(expected, actual, duplicates_allowed=False) == [
        "partition 0: 2 records missing, 1 invented, 1 duplicated"
    ]


def test_duplicates_are_allowed_at_least_once_and_losses_are_not() -> None:
    expected = contents([1, 2])
    assert differences(expected, contents([1, 2, 2]), duplicates_allowed=True) == []
    assert differences(expected, contents([1, 2, 2]), duplicates_allowed=False) != []
    assert differences(expected, contents([1, 1]), duplicates_allowed=True) != []


def test_a_record_in_another_partition_is_missing_there() -> None:
    found = differences(contents([1], [2]), contents([], [1, 2]), duplicates_allowed=True)
    assert [problem.partition(":")[0] for problem in found] == ["partition 0", "partition 1"]


def test_the_expected_digests_are_those_of_the_outputs_where_their_keys_belong() -> None:
    keys, values = INTEGERS.keys_and_values(np.arange(50, dtype=np.int64))
    squares = pa.array([b"%d" % (n * n) for n in range(50)], pa.binary())
    digests, routes = row_digests(keys, squares), partitions_of(keys, 3)
    for partition, found in expected_digests(keys, values, INTEGERS, 3):
        assert found.tolist() == digests[routes == partition].tolist()


def test_nothing_read_is_an_empty_partition() -> None:
    assert joined([]).tolist() == []
