"""The findings of a proof, made from its observations."""

import json
from dataclasses import replace
from typing import ClassVar, cast

import pytest
from pyspark.sql import SparkSession

from eos_assets.context import PipelineContext
from eos_assets.declare.check import Finding
from eos_assets.declare.modes import Mode
from eos_assets.declare.options import Unique
from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.kafka.connection import Connection
from eos_assets.log.ledger import Genesis, LedgerEntry, WrittenRange
from eos_assets.verify.findings import Evidence, evaluate
from eos_assets.verify.invariants import SHOWN
from eos_assets.verify.observations import Observation, Observations
from eos_assets.verify.recomputation import Recomputation
from eos_assets.verify.topic_frames import TopicFrames
from eos_assets.verify.window.window import PartitionWindow, Window

PIPELINE = Pipeline("p", Topic("source"), (Topic("sink"),), lambda r: r, "1", unique=Unique("key"))
ENTRY = LedgerEntry("p", "source", 0, 0, 8, 8, 8, 0, 0, 2, (), "run", 1, 0, "1", 0, 0)
PARTITION = PartitionWindow(0, [Genesis("p", 0, 0, {}), ENTRY], None, start=0, end=8)
WINDOW = Window({0: PARTITION}, {}, {}, group_offsets={0: 8})


class PlannedRecomputation(Recomputation):
    """One whose transform chooses no partitions, so that Spark need not plan it."""

    declares_partitions: ClassVar[bool] = False


class RecomputationWithPartitions(Recomputation):
    declares_partitions: ClassVar[bool] = True


def findings(
    observed: dict[str, Observation] | None = None,
    *,
    pipeline: Pipeline = PIPELINE,
    window: Window = WINDOW,
    mode: Mode = Mode.EXACTLY_ONCE,
    recomputation: type[Recomputation] = PlannedRecomputation,
) -> dict[str, Finding]:
    context = PipelineContext(pipeline, cast(SparkSession, None), Connection("nowhere:9092"), mode)
    observations = Observations(Observation, observed or {})
    evidence = Evidence(recomputation(TopicFrames(context, window)), observations)
    return {finding.name: finding for finding in evaluate(evidence)}


def broken(found: dict[str, Finding]) -> set[str]:
    return {name for name, finding in found.items() if not finding.holds}


def test_every_invariant_holds_without_observations() -> None:
    found = findings()
    assert list(found) == [
        "no_duplicates",
        "none_missing",
        "none_invented",
        "ordered_within_partition",
        "routed_correctly",
        "ledger_tiles_source",
        "ledger_matches_sink",
        "offsets_match_ledger",
        "values_recompute",
        "source_is_unique",
    ]
    assert broken(found) == set()
    assert all(finding.evaluated for finding in found.values())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((name, name) for name in ("no_duplicates", "none_missing", "none_invented", "ordered_within_partition")),
        ("routed_correctly", "routed_correctly"),
        ("lost", "values_recompute"),
        ("too many", "values_recompute"),
        ("source_is_unique", "source_is_unique"),
    ],
)
def test_an_observation_breaks_its_invariant_alone(kind: str, name: str) -> None:
    found = findings({kind: Observation(7, [str(number) for number in range(3 * SHOWN)])})
    assert broken(found) == {name}
    assert "7 " in found[name].detail
    assert 0 < len(found[name].examples) <= SHOWN


def test_repeated_business_keys_are_a_warning() -> None:
    assert findings({"source_is_unique": Observation(1, ["key"])})["source_is_unique"].severity == "warning"


def test_repeated_business_keys_are_left_out_where_no_key_is_declared() -> None:
    assert set(findings()) - set(findings(pipeline=replace(PIPELINE, unique=None))) == {"source_is_unique"}


def test_moved_content_breaks_the_routing_where_the_transform_declares_partitions() -> None:
    moved = {"moved": Observation(1, ["moved: sink/1/20"])}
    assert broken(findings(moved)) == set()
    assert broken(findings(moved, recomputation=RecomputationWithPartitions)) == {"routed_correctly"}
    other = replace(PIPELINE, deterministic=False)
    found = findings(moved, pipeline=other, recomputation=RecomputationWithPartitions)
    assert not found["routed_correctly"].evaluated
    assert not found["values_recompute"].evaluated


def test_another_number_of_dropped_records_than_that_of_the_ledger_is_missing() -> None:
    drops = replace(PIPELINE, drops=True)
    found = findings({"dropped": Observation(0, ["[0, 0, 2]"])}, pipeline=drops)["none_missing"]
    assert (found.holds, "2 of them dropped" in found.detail) == (True, True)
    found = findings({"dropped": Observation(0, ["[0, 0, 1]"])}, pipeline=drops)["none_missing"]
    assert (found.holds, len(found.examples)) == (False, 1)
    compacted = replace(WINDOW, source_is_compacted=True)
    assert findings({"dropped": Observation(0, ["[0, 0, 1]"])}, pipeline=drops, window=compacted)["none_missing"].holds


def test_a_baseline_delivery_has_no_findings_over_its_ledger() -> None:
    found = findings(mode=Mode.AT_LEAST_ONCE)
    assert {"ledger_tiles_source", "ledger_matches_sink", "offsets_match_ledger"} & set(found) == set()


def test_a_group_offset_without_a_ledger_is_broken() -> None:
    window = replace(WINDOW, partitions={0: PartitionWindow(0, [], None)})
    assert broken(findings(window=window)) == {"offsets_match_ledger"}
    assert broken(findings(window=replace(window, group_offsets={0: None}))) == set()
    assert broken(findings(window=replace(window, group_offsets={}))) == set(), "an open transaction holds it"


def test_the_digest_of_dead_letters_is_not_compared() -> None:
    topic = PIPELINE.names().dead_letters
    sinks = (WrittenRange(topic, 0, 1, 5, 5, digest=0), WrittenRange("sink", 0, 1, 7, 7, digest=9))
    window = replace(WINDOW, partitions={0: replace(PARTITION, rows=[PARTITION.rows[0], replace(ENTRY, sinks=sinks)])})
    sums = [json.dumps([0, 0, topic, 0, 1, 5, 5, 77]), json.dumps([0, 0, "sink", 0, 1, 7, 7, 9])]
    assert broken(findings({"sum": Observation(0, sums)}, window=window)) == set()
    sums[1] = json.dumps([0, 0, "sink", 0, 1, 7, 7, 8])
    assert broken(findings({"sum": Observation(0, sums)}, window=window)) == {"ledger_matches_sink"}


def test_what_other_code_wrote_is_left_out_of_the_recomputation() -> None:
    part = replace(WINDOW, partitions={0: replace(PARTITION, code_start=3)})
    assert "3 offsets were written by other code" in findings(window=part)["values_recompute"].detail
    whole = replace(WINDOW, partitions={0: replace(PARTITION, code_start=8)})
    assert not findings(window=whole)["values_recompute"].evaluated
