"""The records of a workload are the same each time, and their outputs are what every contender must write."""

import numpy as np
import pyarrow.compute as pc
import pytest

from benchmarks.peers.protocol import transform_of
from benchmarks.pipelines import PIPELINES, pipeline_of
from benchmarks.workload import INTEGERS, WORKLOADS, Workload

NUMBERS = np.arange(90, 120, dtype=np.int64)


def test_integers_are_squared() -> None:
    keys, values = INTEGERS.keys_and_values(NUMBERS)
    assert keys.equals(values)
    assert INTEGERS.outputs(values).to_pylist() == [b"%d" % (n * n) for n in range(90, 120)]


@pytest.mark.parametrize("name", ["100B", "1KB"])
def test_text_has_its_size_and_becomes_upper_case(name: str) -> None:
    workload = WORKLOADS[name]
    keys, values = workload.keys_and_values(NUMBERS)
    assert set(pc.binary_length(values).to_pylist()) == {workload.value_bytes}
    assert keys.to_pylist()[:2] == [b"90", b"91"]
    assert workload.outputs(values).to_pylist() == [value.upper() for value in values.to_pylist()]
    assert workload.keys_and_values(NUMBERS)[1].equals(values)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_a_peer_in_python_writes_the_same_outputs(workload: Workload) -> None:
    _, values = workload.keys_and_values(NUMBERS)
    transform = transform_of(workload.name)
    assert [transform(value) for value in values.to_pylist()] == workload.outputs(values).to_pylist()


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_both_kinds_have_a_pipeline_for_each_workload(workload: Workload) -> None:
    assert pipeline_of("Arrow", workload.name).takes_batches
    assert not pipeline_of("DataFrame", workload.name).takes_batches
    assert len({pipeline_of(kind, workload.name).name for kind in PIPELINES}) == len(PIPELINES)
