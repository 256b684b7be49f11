"""A provenance map can be read back, and is small."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eos_assets.log import provenance
from eos_assets.log.provenance import ProvenanceMap


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1000), st.integers(0, 5)), min_size=1, max_size=300))
def test_a_provenance_map_can_be_read_back(rows: list[tuple[int, int, int]]) -> None:
    steps, jumps, sequences = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    written = ProvenanceMap(3, 17, "sink", 2, np.cumsum(steps), np.cumsum(jumps), sequences)
    (value,) = written.messages()
    read = provenance.load(value)
    assert (read.source_partition, read.start, read.topic, read.partition) == (3, 17, "sink", 2)
    assert read.sink_offsets.tolist() == written.sink_offsets.tolist()
    assert read.source_offsets.tolist() == written.source_offsets.tolist()
    assert read.sequences.tolist() == sequences.tolist()


def test_provenance_of_a_one_to_one_pipeline_takes_less_than_a_byte_a_record() -> None:
    rows = np.arange(500_000)
    size = sum(map(len, ProvenanceMap(0, 0, "sink", 0, rows, rows, np.zeros_like(rows)).messages()))
    assert size < len(rows)
