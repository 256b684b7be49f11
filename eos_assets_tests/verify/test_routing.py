"""The partition where each record belongs, by declaration, key or source."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.kafka.partitioner import partitions_of
from eos_assets.verify.scope import expected_partitions

keys = st.one_of(st.none(), st.binary(max_size=12))
rows = st.lists(st.tuples(keys, st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 20)), max_size=10)


def expected(key: bytes | None, declared: int | None, source: int, count: int) -> int:
    if declared is not None:
        return declared
    return int(partitions_of(pa.array([key], pa.binary()), count)[0]) if key is not None else source % count


@given(rows, st.integers(1, 9), st.booleans())
def test_a_declared_partition_precedes_the_key_and_the_key_precedes_the_source(
    some: list[tuple[bytes | None, int | None, int]], count: int, declares: bool
) -> None:
    key = pa.array([row[0] for row in some], pa.binary())
    declared = pa.array([row[1] for row in some], pa.int64()) if declares else None
    source = np.array([row[2] for row in some], np.int64)
    found = expected_partitions(key, declared, source, count).tolist()
    assert found == [expected(k, d if declares else None, s, count) for k, d, s in some]


def test_the_source_partitions_are_not_changed() -> None:
    source = np.array([4, 5], np.int64)
    expected_partitions(pa.array([b"a", None], pa.binary()), None, source, 3)
    assert source.tolist() == [4, 5]
