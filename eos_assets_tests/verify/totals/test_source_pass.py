"""Source records and recomputed outputs are added up, wherever their batches are cut."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eos_assets.verify.scope import PartitionScope, ProofScope
from eos_assets.verify.totals.sink_pass import add_by_place, add_by_transaction
from eos_assets.verify.totals.total import Total, hash_rows, total

#: Source partition 0 has two transactions, [2, 4) and [4, 10), source partition 1 has one.
PARTITION = PartitionScope(0, 10, 0, 0, transactions=(2, 4))
SCOPE = ProofScope(
    {0: PARTITION, 1: PartitionScope(0, 10, 0, 0, transactions=(0,))},
    ["sink", "dead"],
    [3],
    declares_partitions=True,
    drops=True,
)


def values(batches: list[pa.RecordBatch]) -> dict[str, list[Any]]:
    """Kind → the values of its rows."""
    rows: dict[str, list[Any]] = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        rows.setdefault(row["kind"], []).append(json.loads(row["text"]))
    return rows


def total_of(*columns: list[int]) -> Total:
    return total(hash_rows(*(np.array(column, np.int64) for column in columns)))


@pytest.mark.parametrize("cut", range(6))
def test_source_records_are_counted_in_all_and_by_transaction(cut: int) -> None:
    offsets, partitions = [1, 2, 3, 4, 9, 9], [0, 0, 0, 0, 0, 1]
    whole = pa.record_batch({"o_offset": pa.array(offsets), "o_partition": pa.array(partitions)})
    found = values(list(add_by_transaction(SCOPE, [whole.slice(0, cut), whole.slice(cut)])))
    everything = total_of(offsets, partitions)
    assert found["visible"] == [[everything.n, everything.sum, 0]]
    assert sorted(found["transaction"]) == [[0, 2, 2], [0, 4, 2], [1, 0, 1]], "no transaction covers offset 1"


@pytest.mark.parametrize("cut", range(5))
def test_outputs_are_added_up_where_the_transform_declares_that_they_belong(cut: int) -> None:
    offsets, sources, topics, digests = [0, 1, 2, 3], [0, 1, 1, 0], [0, 0, 1, 0], [7, -8, 0, 9]
    whole = pa.record_batch(
        {
            "o_offset": pa.array(offsets),
            "o_partition": pa.array(sources),
            "topic": pa.array(topics),
            "digest": pa.array(digests),
            "key": pa.array([None, None, b"k", None], pa.binary()),
            "partition": pa.array([2, None, 2, 2], pa.int32()),
            "compared": pa.array([True, True, True, False]),
        }
    )
    found = values(list(add_by_place(SCOPE, [whole.slice(0, cut), whole.slice(cut)])))
    #: Declared; without a key that of its source partition; of a dead letter that of its origin.
    places = [2, 1, 1]
    content = total_of(digests[:3], offsets[:3], sources[:3], topics[:3], places)
    kept = total_of(offsets, sources)
    assert found == {"recomputed": [[content.n, content.sum, 0]], "kept": [[kept.n, kept.sum, 0]]}
