"""A proof of nothing new refers to the last one."""

from dataclasses import replace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from eos_assets.context import PipelineContext
from eos_assets.declare.check import Finding
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import Genesis
from eos_assets.verify.findings import Evidence, describe_proof, has_nothing_new, name_last_proof
from eos_assets.verify.observations import Observation, Observations
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.topic_frames import TopicFrames
from eos_assets.verify.window.window import PartitionWindow, Window

PIPELINE = Pipeline("p", Topic("source"), (Topic("sink"),), lambda r: r, "1")
WINDOW = Window({p: PartitionWindow(p, [], proven) for p, proven in ((0, 1200), (1, 1180))}, {}, {}, incremental=True)
PROVEN_AT = "2026-11-19 04:31:07 UTC"


def evidence(window: Window = WINDOW, sink_records: int = 0) -> Evidence:
    context = PipelineContext(PIPELINE, cast(SparkSession, None), Connection("nowhere:9092"))
    observations = Observations(Observation, {"sink_records": Observation(sink_records, [])})
    return Evidence(Recomputation(TopicFrames(context, window)), observations)


def test_an_empty_window_after_a_proof_has_nothing_new() -> None:
    assert has_nothing_new(evidence())
    committed = {**WINDOW.partitions, 1: PartitionWindow(1, [Genesis("p", 1, 0, {})], None)}
    assert not has_nothing_new(evidence(replace(WINDOW, partitions=committed)))
    assert not has_nothing_new(evidence(sink_records=1)), "a record that no run wrote"
    assert not has_nothing_new(evidence(replace(WINDOW, incremental=False))), "there was no proof yet"


@pytest.mark.parametrize(
    ("proven_at", "since"),
    [(PROVEN_AT, f"nothing new since the proof of {PROVEN_AT}"), ("", "nothing new since the last proof")],
)
def test_it_is_described_by_the_last_proof_and_up_to_where_everything_is_proven(proven_at: str, since: str) -> None:
    assert describe_proof(evidence(), proven_at) == f"{since}; proven up to source/0@1200, /1@1180"
    holds, broken = Finding("none_missing", True, "0 source records"), Finding("no_duplicates", False, "1 twice")
    skipped, offsets = (
        Finding("values_recompute", True, "?", evaluated=False),
        Finding("offsets_match_ledger", True, "0: 7"),
    )
    named = name_last_proof([holds, broken, skipped, offsets], proven_at)
    assert named == [replace(holds, detail=since), broken, skipped, offsets]
