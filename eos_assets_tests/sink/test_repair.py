"""The rows of missing outputs are chosen among all rows of their source records, and are those of the plan."""

import pyarrow as pa
import pytest

from eos_assets.errors import TaskError
from eos_assets.log.ledger import LostOutputs
from eos_assets.sink.repair import SKIP, MissingOutput, check_outputs, missing_rows, sum_lost


def rows(*origins: int, **columns: pa.Array) -> pa.RecordBatch:
    """Rows of these origins. The digest of each is its index."""
    digests = pa.array(range(len(origins)), pa.int64())
    return pa.record_batch({"o_offset": pa.array(origins, pa.int64()), "digest": digests, **columns})


def planned(*digests: int) -> list[MissingOutput]:
    return [MissingOutput("t", 0, digest) for digest in digests]


def chosen(batches: list[pa.RecordBatch], outputs: dict[tuple[int, int], MissingOutput]) -> list[tuple[int, int, int]]:
    return [
        (row["o_offset"], row["sequence"], row["digest"])
        for batch in missing_rows(batches, 0, outputs)
        for row in batch.to_pylist()
    ]


def test_single_outputs_of_a_record_are_chosen_by_their_number() -> None:
    first, second = planned(1, 0)
    outputs = {(3, 1): first, (4, 3): second}
    batches = [rows(3, 3, 4, 4), rows(), rows(4, 4, 5)]
    assert chosen(batches, outputs) == [(3, 1, 1), (4, 3, 1)]
    again = list(missing_rows(missing_rows(batches, 0, outputs), 0, {(4, 3): second}))
    assert [batch["sequence"].to_pylist() for batch in again] == [[3]], "they keep their numbers"


def test_a_skip_is_chosen_by_its_record() -> None:
    (skip,) = planned(0)
    batch = rows(3, 3, skip=pa.array([None, True]))
    assert chosen([batch], {(3, SKIP): skip}) == [(3, 1, 1)]
    assert chosen([batch], {(3, 1): skip}) == []


def test_nothing_else_than_what_was_planned_is_written() -> None:
    one, other, dead = planned(0, 1, 0)
    outputs = {(3, 0): one, (4, 0): other, (5, 0): dead}
    batch = rows(3, 4, 5, error=pa.array([None, None, b"why"]))
    check_outputs(missing_rows([batch], 0, outputs), outputs, 0)
    for wrong in ({**outputs, (3, 0): other}, {**outputs, (9, 0): one}):
        with pytest.raises(TaskError, match=r"source offset [39] of partition 0 .* something else"):
            check_outputs(missing_rows([batch], 0, wrong), wrong, 0)


def test_what_was_lost_is_added_up_by_transaction_and_place() -> None:
    outputs = [
        MissingOutput("t", 0, 2**64 - 1, 0),
        MissingOutput("t", 0, 3, 0),
        MissingOutput("t", 1, 5, 0),
        MissingOutput("t", 0, 7, -1),
        MissingOutput("t", 0, 9),
    ]
    assert sum_lost(outputs) == (
        LostOutputs(-1, "t", 0, 1, 7),
        LostOutputs(0, "t", 0, 2, 2),
        LostOutputs(0, "t", 1, 1, 5),
    )
