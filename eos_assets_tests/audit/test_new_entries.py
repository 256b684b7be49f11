"""The ledger entries that the audit tables lack."""

from typing import cast

import pytest
from pyspark.sql import SparkSession

from eos_assets.audit.marks import TablesReached
from eos_assets.audit.new_entries import is_unstable, partitions_without_deliveries
from eos_assets.context import PipelineContext
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import LedgerEntry, WrittenRange

PIPELINE = Pipeline("p", Topic("source"), (Topic("sink"),), lambda r: r, "1")
CONTEXT = PipelineContext(PIPELINE, cast(SparkSession, None), Connection("nowhere:9092"))
PROVENANCE = CONTEXT.names.provenance


def entry(partition: int, start: int, *, outputs: bool = True) -> LedgerEntry:
    sinks = (WrittenRange("sink", 3, 2, 5, 6, 7),) if outputs else ()
    return LedgerEntry("p", "source", partition, start, start + 4, 0, 0, 0, 0, 0, sinks, "run", 1, 0, "1", 0, 0)


def test_an_update_that_wrote_transactions_and_no_deliveries_is_found() -> None:
    entries = [(4, entry(0, 10)), (5, entry(0, 14)), (2, entry(1, 20)), (7, entry(2, 30, outputs=False))]
    loaded = {0: 4, 1: 2, 2: 7}
    assert partitions_without_deliveries(entries, TablesReached(loaded, {0: 6, 1: 20})) == [0]
    assert partitions_without_deliveries(entries, TablesReached(loaded, {0: 10, 1: 20})) == []


@pytest.mark.parametrize(
    ("unstable", "expected"),
    [
        ({}, False),
        ({("sink", 3): 6}, True),
        ({("sink", 3): 7}, False),
        ({("sink", 0): 0}, False),
        ({(PROVENANCE, 1): 99}, True),
        ({(PROVENANCE, 0): 99}, False),
    ],
    ids=["stable", "an output", "another output", "another partition", "its maps", "other maps"],
)
def test_an_entry_waits_for_its_outputs_and_its_maps(unstable: dict[tuple[str, int], int], expected: bool) -> None:
    assert is_unstable(CONTEXT, entry(1, 10), unstable) == expected
